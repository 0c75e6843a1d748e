# SPDX-License-Identifier: Apache-2.0
"""One test of a given file, in the process that was made for it.

Everything that a test can see is set up here: the way in, the adjustments, the file itself. The outcome
goes out through a pipe as one line; a process that ends without it has crashed.
"""

import importlib.util
import json
import sys
import traceback
import unittest

import adjustments
import ways

REASON_LENGTH = 200


def load(path):
    """The test file as a module, unchanged."""
    name = path.stem
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_names(module):
    """Class.test for each test that the file has once it is loaded, in its order."""
    loader = unittest.TestLoader()
    for name, kind in vars(module).items():
        if (isinstance(kind, type) and issubclass(kind, unittest.TestCase)
                and kind.__module__ == module.__name__):
            for test in loader.getTestCaseNames(kind):
                yield f"{name}.{test}"


class Outcome(unittest.TestResult):
    """What became of one test: a word, and the line that says why. The first trouble counts."""

    def __init__(self):
        super().__init__()
        self.word, self.reason = None, ""

    def _note(self, word, reason):
        if self.word in (None, "passed"):
            self.word, self.reason = word, " ".join(reason.split())[:REASON_LENGTH]

    def addSuccess(self, test):
        self._note("passed", "")

    def addExpectedFailure(self, test, err):
        self._note("passed", "")

    def addUnexpectedSuccess(self, test):
        self._note("failed", "passes although the file expects a failure")

    def addSkip(self, test, reason):
        self._note("skipped", reason)

    def addFailure(self, test, err):
        self._trouble(err)

    def addError(self, test, err):
        self._trouble(err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._trouble(err)

    def _trouble(self, err):
        traceback.print_exception(*err)
        kind, error, _ = err
        lines = str(error).strip().splitlines() or [""]
        self._note("failed", f"{kind.__name__}: {lines[0]}")


def run_test(module, name):
    """Runs Class.test; the word and the reason."""
    outcome = Outcome()
    try:
        unittest.TestLoader().loadTestsFromName(name, module).run(outcome)
    except SystemExit as stop:
        outcome.word, outcome.reason = "failed", f"the test ended its process with {stop.code}"
    return outcome.word or "failed", outcome.reason if outcome.word else "no such test"


def main(command, tests, way, answer):
    """Carries out `list` or the name of a test, and writes the answer as a line of JSON."""
    reply = {}
    try:
        ways.enter(way)
        module = load(tests)
        names = adjustments.apply()
        if command == "list":
            reply = {"tests": list(test_names(module)), "adjustments": names}
        else:
            reply["outcome"], reply["reason"] = run_test(module, command)
    except Exception as error:  # Whatever it is: the test cannot be run here.
        traceback.print_exc()
        reply = {"outcome": "failed", "reason": f"cannot be loaded: {type(error).__name__}: {error}"}
    with open(answer, "w", encoding="utf-8") as pipe:
        pipe.write(json.dumps(reply) + "\n")
