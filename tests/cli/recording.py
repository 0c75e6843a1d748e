# SPDX-License-Identifier: Apache-2.0
"""`record` beside a job that runs, ends, is killed or disturbed."""

import os
import signal
import subprocess

import support
from support import TraceTestCase, answers, run, signals, start, wait_until


class Following(TraceTestCase):
    def followed(self, job, *options):
        """Drains in the background; comes back when something is in the file."""
        path = self.folder / "out.fst"
        recorder = start("record", "--from", job.ring, "-o", path, *options)
        self.addCleanup(lambda: recorder.poll() is None and recorder.kill())
        wait_until(lambda: path.exists() and path.stat().st_size > 4096, "the first records")
        return recorder, path

    def ends_well(self, recorder):
        _, err = recorder.communicate(timeout=60)
        self.assertEqual(recorder.returncode, 0, err)
        self.assertEqual(err.count(b"\n"), 1, err)

    def test_ends_by_itself_when_the_job_ends_or_is_killed(self):
        for end in ("fail", "fail-kill"):
            for options in ((), ("--zstd",)):
                with self.subTest(end=end, options=options):
                    job = self.job(seed=7, steps=600, end=end, waits=1)
                    recorder, path = self.followed(job, *options)
                    job.go_on()
                    self.ends_well(recorder)
                    report = self.analyzed(path)
                    self.assertEqual(signals(report), [])
                    self.assertEqual(answers(report), answers(self.analyzed(job.ring)))
                    path.unlink()

    def test_a_signal_ends_the_file_properly(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                job = self.job(seed=7, steps=600, waits=1)
                recorder, path = self.followed(job)
                recorder.send_signal(number)
                self.ends_well(recorder)
                self.assertIsNone(job.process.poll(), "the job is not touched")
                self.assertEqual(signals(self.analyzed(path)), [])
                path.unlink()

    def test_a_killed_recorder_leaves_a_file_that_can_be_read(self):
        job = self.job(seed=7, steps=600, end="fail", waits=1)
        recorder, path = self.followed(job, "--zstd")
        want = self.analyzed(job.ring)
        wait_until(lambda: self.events_in(path) == want["input"]["events"], "all records")
        recorder.kill()
        recorder.communicate(timeout=60)
        report = self.analyzed(path)
        self.assertEqual(signals(report), ["cut-short"])
        report["trust"] = []
        self.assertEqual(answers(report), answers(want))
        job.go_on()

    def events_in(self, path):
        code, out, _ = run("dump", path)
        return sum(not line.startswith(b"#") for line in out.splitlines()) if code == 0 else -1

    def test_a_ring_cut_by_another_process_is_one_line(self):
        job = self.job(seed=7, steps=600, waits=1)
        copy = self.file("copy.ring", job.ring.read_bytes())
        recorder = start("record", "--from", copy, "-o", self.folder / "out.fst")
        wait_until(lambda: (self.folder / "out.fst").exists(), "the file")
        os.truncate(copy, 0)
        _, err = recorder.communicate(timeout=60)
        self.assertEqual(recorder.returncode, 1, err)
        self.assertIn(b"shrank", err)
        self.assertEqual(err.count(b"\n"), 1, err)
        job.go_on()


class Output(TraceTestCase):
    def test_nothing_is_overwritten_without_force(self):
        ring = self.ended_job(seed=2, steps=100).ring
        path = self.file("out.fst", b"precious")
        self.refuses("is there already (--force overwrites it)",
                     "record", "--from", ring, "-o", path)
        self.assertEqual(path.read_bytes(), b"precious")
        self.drained(ring, "out.fst", "--force")
        self.assertEqual(signals(self.analyzed(path)), [])

    def test_an_overwritten_file_is_replaced_and_not_shortened(self):
        ring = self.ended_job(seed=2, steps=100).ring
        path = self.file("out.fst", b"mapped by somebody")
        with open(path, "rb") as old:
            self.drained(ring, "out.fst", "--force")
            self.assertEqual(old.read(), b"mapped by somebody")

    def test_the_ring_itself_is_never_the_output(self):
        job = self.job(seed=2, steps=100, end="fail", waits=1)
        before = job.ring.read_bytes()
        for options in ((), ("--force",)):
            self.refuses("is the ring itself", "record", "--from", job.ring, "-o", job.ring,
                         *options)
        link = self.folder / "link"
        link.symlink_to(job.ring)
        self.refuses("is the ring itself", "record", "--from", job.ring, "-o", link, "--force")
        self.assertEqual(job.ring.read_bytes(), before)
        job.go_on()

    def test_a_full_disk_is_one_line_that_names_the_output(self):
        ring = self.ended_job(seed=2, steps=100).ring
        self.refuses("/dev/full: cannot be written: No space left on device",
                     "record", "--from", ring, "-o", "/dev/full", "--force")
        with open("/dev/full", "wb") as full:
            self.refuses("cannot be written: No space left on device",
                         "record", "--from", ring, "-o", "-", stdout=full)
            for command in ("dump", "analyze"):
                code, _, err = run(command, ring, stdout=full)
                self.assertEqual(code, 1, err)

    def test_a_reader_that_stops_early_is_no_crash(self):
        ring = self.ended_job(seed=2, steps=900).ring
        for arguments in (("dump", ring), ("record", "--from", ring, "-o", "-")):
            process = subprocess.Popen([support.TOOL, *map(str, arguments)], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            process.stdout.close()
            process.stderr.read()
            self.assertIn(process.wait(timeout=60), (0, 1))
            process.stderr.close()

    def test_a_file_is_written_to_standard_output(self):
        ring = self.ended_job(seed=2, steps=100, end="fail").ring
        file = self.succeeds("record", "--from", ring, "-o", "-")
        self.assertEqual(answers(self.analyzed("-", stdin=file)), answers(self.analyzed(ring)))

    def test_a_pipe_under_a_rings_name_is_not_waited_for(self):
        pipe = self.folder / "fragscope-1-0-00000000.ring"
        os.mkfifo(pipe)
        self.refuses("no file", "record", "--from", pipe, "-o", self.folder / "out.fst")
