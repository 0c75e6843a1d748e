# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: the program, jobs that write rings, and files of a
test that go with it."""

import json
from pathlib import Path
import subprocess
import tempfile
import time
import unittest

TOOL = ""
JOB = ""
LIBRARIES = ""  # Virtual CUDA.
_LONG = 60


def run(*arguments, stdin=None, stdout=subprocess.PIPE):
    """A command until its end. Gives exit code, standard output and standard error."""
    done = subprocess.run([TOOL, *map(str, arguments)], input=stdin, stdout=stdout,
                          stderr=subprocess.PIPE, timeout=_LONG, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def start(*arguments):
    return subprocess.Popen([TOOL, *map(str, arguments)], stderr=subprocess.PIPE)


def wait_until(condition, what):
    deadline = time.monotonic() + _LONG
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain for: " + what)
        time.sleep(0.01)


class Job:
    """A recorded program; `--waits 1` stops it before its end until `go_on`."""

    def __init__(self, directory, **options):
        arguments = [JOB, "--directory", str(directory)]
        for name, value in options.items():
            arguments += ["--" + name, str(value)]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.ring = Path(self.value_of("ring"))
        self.is_waiting = bool(options.get("waits"))
        if self.is_waiting:
            self.value_of("ready")

    def value_of(self, name):
        word, value = self.process.stdout.readline().split(" ", 1)
        if word != name:
            raise AssertionError(f"expected {name}, the job says {word}")
        return value.strip()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.finish()

    def finish(self):
        self.process.communicate(timeout=_LONG)
        return self

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.finish()


class TraceTestCase(unittest.TestCase):
    """With a folder of its own, in which jobs write their rings."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fragscope_cli_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.rings = self.folder / "rings"
        self.rings.mkdir()

    def job(self, **options):
        job = Job(self.rings, **options)
        self.addCleanup(job.stop)
        return job

    def ended_job(self, **options):
        return self.job(**options).finish()

    def succeeds(self, *arguments, **streams):
        code, out, err = run(*arguments, **streams)
        self.assertEqual(code, 0, err)
        return out

    def refuses(self, expected, *arguments, **streams):
        """One line that says `expected`, exit code 1, and nothing on standard output."""
        code, out, err = run(*arguments, **streams)
        self.assertEqual(code, 1, err)
        self.assertIn(expected, err)
        self.assertTrue(err.startswith("fragscope: "), err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn(out, (b"", None))

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def analyzed(self, path, *options, **streams):
        return json.loads(self.succeeds("analyze", path, "--json", *options, **streams))

    def drained(self, ring, name="out.fst", *options):
        path = self.folder / name
        self.succeeds("record", "--from", ring, "-o", path, "--once", *options)
        return path


def answers(report):
    """What must not depend on how the trace was kept, and when it was made."""
    failures = [{key: value for key, value in failure.items() if key != "time_us"}
                for failure in report["failures"]]
    return {"failures": failures, "devices": report["devices"], "trust": report["trust"],
            "events": report["input"]["events"]}


def signals(report):
    return [entry["signal"] for entry in report["trust"]]
