# SPDX-License-Identifier: Apache-2.0
"""Tests for runner_test.py to run: one for each way that a test can end."""

import os
import signal
import subprocess
import sys
import threading
import time
import unittest


class Endings(unittest.TestCase):
    def test_passes(self):
        self.assertTrue(True)

    def test_fails(self):
        self.assertEqual(1, 2, "one is not two")

    def test_errs(self):
        raise KeyError("nothing here")

    def test_fails_in_a_subtest(self):
        for number in (1, 2):
            with self.subTest(number=number):
                self.assertEqual(number, 1)

    @unittest.skip("for a reason")
    def test_skips(self):
        self.fail("is not run")

    @unittest.expectedFailure
    def test_fails_as_expected(self):
        self.fail("as expected")

    @unittest.expectedFailure
    def test_passes_unexpectedly(self):
        pass

    def test_crashes(self):
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_leaves(self):
        os._exit(3)

    def test_hangs(self):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(f"hanging with child {child.pid}", flush=True)
        time.sleep(600)

    def test_hangs_at_exit(self):
        threading.Thread(target=time.sleep, args=(600,)).start()

    def test_finds_a_clean_process(self):
        self.assertNotIn("PYTORCH_CUDA_ALLOC_CONF", os.environ)
        self.assertNotIn("stained", globals())

    def test_stains_its_process(self):
        globals()["stained"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "stained"


class NotSelected(unittest.TestCase):
    def test_fails(self):
        self.fail("is not selected")
