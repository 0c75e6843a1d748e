# SPDX-License-Identifier: Apache-2.0
"""What became of each test, as a table of tab-separated values: test, outcome, reason, seconds."""

import csv
from collections import Counter

COLUMNS = ("test", "outcome", "reason", "seconds")
OUTCOMES = ("passed", "failed", "skipped", "crashed", "timed out")


def write(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, dialect="excel-tab", lineterminator="\n",
                               extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)


def read(path):
    """The rows by test."""
    with open(path, encoding="utf-8", newline="") as file:
        return {row["test"]: row for row in csv.DictReader(file, dialect="excel-tab")}


def summary(rows):
    counts = Counter(row["outcome"] for row in rows)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])


def regressions(stored, rows):
    """The rows whose test passes in the stored table and not here; a test that is gone counts too."""
    here = {row["test"]: row for row in rows}
    for test, row in stored.items():
        if row["outcome"] == "passed" and test not in here:
            yield {"test": test, "outcome": "missing", "reason": "not among the tests that were run"}
        elif row["outcome"] == "passed" and here[test]["outcome"] != "passed":
            yield here[test]
