#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints "passed failed skipped" for one JUnit file that ctest wrote, then what failed or skipped.

ctest marks both a test that chose to skip and one that it could not start as "notrun", and its own
totals call both skipped. Only the first kind is; the second is a failure.
"""

import sys
import xml.etree.ElementTree as ElementTree

CHOSE_TO_SKIP = ("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION", "Disabled")


def judge(case):
    """passed, failed or skipped."""
    status = case.get("status")
    reason = case.find("skipped")
    message = reason.get("message", "") if reason is not None else ""
    if status == "run" and case.find("failure") is None:
        return "passed"
    if status == "disabled" or message.startswith(CHOSE_TO_SKIP):
        return "skipped"
    return "failed"


def main():
    cases = list(ElementTree.parse(sys.argv[1]).getroot().iter("testcase"))
    verdicts = [judge(case) for case in cases]
    print(*(verdicts.count(verdict) for verdict in ("passed", "failed", "skipped")))
    for case, verdict in zip(cases, verdicts):
        if verdict != "passed":
            print(f"{verdict}: {case.get('name')}")


if __name__ == "__main__":
    main()
