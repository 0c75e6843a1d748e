# SPDX-License-Identifier: Apache-2.0
"""The runner of PyTorch's tests, on tests of our own and without PyTorch."""

import csv
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import selection  # noqa: E402


def run(folder, *options):
    """The runner's exit code, what it printed, and its table by test."""
    table = Path(folder) / "table.tsv"
    rules = Path(folder) / "selection.txt"
    rules.write_text("+ *\n- NotSelected.*  # fails\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(HERE / "run_upstream.py"), "--tests", str(HERE / "sample_tests.py"),
         "--selection", str(rules), "--limit", "3", "--jobs", "2", "--output", str(table), *options],
        check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "from outside"})
    with open(table, encoding="utf-8", newline="") as file:
        rows = {row["test"]: row for row in csv.DictReader(file, dialect="excel-tab")}
    return done.returncode, done.stdout, rows


def state_of(process):
    """The letter that the kernel has for what a process does, or "gone"."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return "gone"
    return stat.rpartition(")")[2].split()[0]


class Runner(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.logs = Path(cls.folder.name) / "logs"
        cls.code, cls.printed, cls.rows = run(cls.folder.name, "--logs", str(cls.logs))

    def ending(self, test):
        row = self.rows[f"Endings.{test}"]
        return row["outcome"], row["reason"]

    def test_without_a_stored_table_failures_are_no_error(self):
        self.assertEqual(self.code, 0, self.printed)

    def test_each_ending_is_told_from_the_others(self):
        self.assertEqual(self.ending("test_passes"), ("passed", ""))
        self.assertEqual(self.ending("test_fails"), ("failed", "AssertionError: 1 != 2 : one is not two"))
        self.assertEqual(self.ending("test_errs"), ("failed", "KeyError: 'nothing here'"))
        self.assertEqual(self.ending("test_fails_in_a_subtest"), ("failed", "AssertionError: 2 != 1"))
        self.assertEqual(self.ending("test_skips"), ("skipped", "for a reason"))
        self.assertEqual(self.ending("test_fails_as_expected"), ("passed", ""))
        self.assertEqual(self.ending("test_passes_unexpectedly")[0], "failed")
        self.assertEqual(self.ending("test_crashes"), ("crashed", "SIGSEGV: last words"))
        self.assertEqual(self.ending("test_leaves"), ("crashed", "exit code 3: "))

    def test_a_process_that_does_not_end_is_ended(self):
        outcome, reason = self.ending("test_hangs")
        self.assertEqual(outcome, "timed out")
        self.assertEqual(self.ending("test_hangs_at_exit")[0], "timed out")
        child = re.search(r"child (\d+)", reason)[1]
        self.assertIn(state_of(child), ("gone", "Z"))  # The child of the test went with it.

    def test_a_test_sees_neither_another_nor_what_is_set_outside(self):
        self.assertEqual(self.ending("test_stains_its_process")[0], "passed")
        self.assertEqual(self.ending("test_finds_a_clean_process")[0], "passed")

    def test_what_is_not_selected_is_not_run(self):
        self.assertNotIn("NotSelected.test_fails", self.rows)
        self.assertIn("13 of 14 tests are selected", self.printed)

    def test_what_a_test_prints_can_be_kept(self):
        log = (self.logs / "Endings.test_fails.log").read_text(encoding="utf-8")
        self.assertIn("one is not two", log)


class Against(unittest.TestCase):
    def compare(self, test, outcome):
        """Runs the sample's one passing and one failing test against a table with this row."""
        with tempfile.TemporaryDirectory() as folder:
            stored = Path(folder) / "stored.tsv"
            stored.write_text(f"test\toutcome\treason\tseconds\n{test}\t{outcome}\t\t1\n",
                              encoding="utf-8")
            return run(folder, "--select", "test_(passes|fails)$", "--against", str(stored))

    def test_a_test_that_passed_and_fails_is_an_error(self):
        code, printed, _ = self.compare("Endings.test_fails", "passed")
        self.assertEqual(code, 1)
        self.assertIn("and not here: Endings.test_fails: failed: AssertionError", printed)

    def test_a_test_that_passed_and_is_gone_is_an_error(self):
        code, printed, _ = self.compare("Endings.test_gone", "passed")
        self.assertEqual(code, 1)
        self.assertIn("and not here: Endings.test_gone: missing", printed)

    def test_a_test_that_failed_before_may_fail(self):
        self.assertEqual(self.compare("Endings.test_fails", "failed")[0], 0)

    def test_a_test_that_passes_is_no_error(self):
        self.assertEqual(self.compare("Endings.test_passes", "passed")[0], 0)


class Rules(unittest.TestCase):
    def test_the_last_rule_that_fits_decides(self):
        rules = [(True, "A.*"), (False, "A.test_x*"), (True, "A.test_xy")]
        self.assertEqual([selection.selected(rules, test) for test in
                          ("A.test_a", "A.test_x", "A.test_xy", "B.test_a")],
                         [True, False, True, False])

    def test_a_line_that_is_no_rule_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rules"
            path.write_text("+ A.*\n* A.b\n", encoding="utf-8")
            with self.assertRaisesRegex(ValueError, "rules:2: expected"):
                selection.read_rules(path)

    def test_the_rules_of_the_suite_are_readable(self):
        rules = selection.read_rules(HERE / "selection.txt")
        self.assertTrue(selection.selected(rules, "TestMemPool.test_mempool_id"))
        self.assertFalse(selection.selected(rules, "TestCudaAutocast.test_autocast_rnn"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
