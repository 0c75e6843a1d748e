#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the command line on traces and rings, beside jobs that write them.

  run_cli_test.py --tool build/dev/bin/fragscope --job build/dev/bin/recorded_run
  run_cli_test.py ... listing recording.Output
  run_cli_test.py ... --libraries build/dev/virtual_cuda devices

Runs from the repository's root.
"""

import argparse
import sys
import unittest

import support

_MODULES = ["trace_answers", "recording", "listing", "running", "wrong_input"]


def main():
    parser = argparse.ArgumentParser(description="Tests the command line on traces.")
    parser.add_argument("--tool", required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--libraries", default="", help="virtual CUDA, which `devices` needs")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("tests", nargs="*", default=_MODULES)
    arguments = parser.parse_args()
    support.TOOL = arguments.tool
    support.JOB = arguments.job
    support.LIBRARIES = arguments.libraries
    suite = unittest.defaultTestLoader.loadTestsFromNames(arguments.tests)
    result = unittest.TextTestRunner(verbosity=2 if arguments.verbose else 1).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
