# SPDX-License-Identifier: Apache-2.0
"""One program, kept in many ways, has one answer."""

import gzip
import shutil
import subprocess
import unittest

from support import TraceTestCase, answers, signals

# Seed, steps, slots of the ring: whole, and come round many times.
_PROGRAMS = [(1, 400, 1 << 14), (5, 170, 1 << 14), (8, 900, 1 << 14), (3, 9000, 4096),
             (12, 6000, 2048)]


class Endings(TraceTestCase):
    def test_a_killed_job_shows_what_a_clean_one_shows(self):
        for seed, steps, records in _PROGRAMS:
            with self.subTest(seed=seed):
                reports = []
                for end in ("fail", "fail-kill"):
                    job = self.ended_job(seed=seed, steps=steps, records=records, end=end)
                    reports.append(self.analyzed(job.ring))
                self.assertGreater(len(reports[0]["failures"]), 0)
                self.assertEqual(reports[0]["input"]["kind"], "ring")
                self.assertEqual(answers(reports[0]), answers(reports[1]))

    def test_a_kill_without_a_failure_is_replayed_to_its_last_record(self):
        clean = self.analyzed(self.ended_job(seed=4, steps=700).ring)
        killed = self.analyzed(self.ended_job(seed=4, steps=700, end="kill").ring)
        self.assertEqual(answers(clean), answers(killed))

    def test_a_forked_child_leaves_no_record(self):
        alone = self.analyzed(self.ended_job(seed=6, steps=500, end="fail").ring)
        forked = self.analyzed(self.ended_job(seed=6, steps=500, end="fail", forks=1).ring)
        self.assertEqual(answers(alone), answers(forked))


class Forms(TraceTestCase):
    def test_a_file_shows_what_its_ring_shows(self):
        for seed, steps, records in _PROGRAMS:
            job = self.ended_job(seed=seed, steps=steps, records=records, end="fail")
            ring = self.analyzed(job.ring)
            for options in ((), ("--zstd",)):
                with self.subTest(seed=seed, options=options):
                    file = self.drained(job.ring, "out.fst", "--force", *options)
                    report = self.analyzed(file)
                    self.assertEqual(report["input"]["kind"], "trace")
                    self.assertEqual(report["input"]["input_bytes"], file.stat().st_size)
                    self.assertEqual(answers(ring), answers(report))
                    # Of one recording even the times are the same.
                    self.assertEqual(ring["failures"], report["failures"])

    def test_a_file_is_read_compressed_and_through_a_pipe(self):
        job = self.ended_job(seed=9, steps=800, end="fail")
        file = self.drained(job.ring)
        want = answers(self.analyzed(file))
        plain = file.read_bytes()
        packed = self.file("out.fst.gz", gzip.compress(plain))
        self.assertEqual(answers(self.analyzed(packed)), want)
        self.assertEqual(answers(self.analyzed("-", stdin=plain)), want)
        self.assertEqual(answers(self.analyzed("-", stdin=packed.read_bytes())), want)
        self.assertEqual(answers(self.analyzed("-", stdin=job.ring.read_bytes())), want)
        self.assertEqual(self.succeeds("dump", "-", stdin=plain), self.succeeds("dump", file))
        if shutil.which("zstd"):
            subprocess.run(["zstd", "-q", file], check=True)
            self.assertEqual(answers(self.analyzed(str(file) + ".zst")), want)

    def test_a_dump_has_a_line_for_each_record(self):
        job = self.ended_job(seed=9, steps=800, end="fail")
        lines = self.succeeds("dump", job.ring).decode().splitlines()
        numbers = [int(line.split()[0]) for line in lines if not line.startswith("#")]
        self.assertEqual(numbers, list(range(self.analyzed(job.ring)["input"]["events"])))

    def test_a_live_ring_is_analyzed_as_it_stands(self):
        job = self.job(seed=9, steps=800, end="fail", waits=1)
        before = self.analyzed(job.ring)
        job.go_on()
        after = self.analyzed(job.ring)
        self.assertEqual(len(after["failures"]), len(before["failures"]) + 1)


class Damage(TraceTestCase):
    def test_a_file_without_its_end_says_so(self):
        whole = self.drained(self.ended_job(seed=2, steps=170, end="fail").ring).read_bytes()
        want = answers(self.analyzed("-", stdin=whole))
        for size in (len(whole) - 1, len(whole) - 1480, len(whole) - 1480 - 32):
            with self.subTest(size=size):
                report = self.analyzed("-", stdin=whole[:size])
                self.assertEqual(signals(report), ["cut-short"])
                report["trust"] = []
                self.assertEqual(answers(report), want)
                self.assertIn(b"# cut short: ", self.succeeds("dump", "-", stdin=whole[:size]))

    def test_a_damaged_end_costs_only_the_end(self):
        whole = bytearray(self.drained(
            self.ended_job(seed=2, steps=170, end="fail").ring, "out.fst", "--zstd").read_bytes())
        want = answers(self.analyzed("-", stdin=bytes(whole)))
        whole[-20] ^= 0xff
        report = self.analyzed("-", stdin=bytes(whole))
        self.assertEqual(signals(report), ["damaged-chunk", "cut-short"])
        report["trust"] = []
        self.assertEqual(answers(report), want)
        self.assertIn(b"# damaged: 1 parts", self.succeeds("dump", "-", stdin=bytes(whole)))

    def test_bytes_behind_the_end_are_named(self):
        file = self.drained(self.ended_job(seed=2, steps=170).ring)
        file.write_bytes(file.read_bytes() * 2)
        self.assertEqual(signals(self.analyzed(file)), ["bytes-behind-end"])


class Refusals(TraceTestCase):
    def test_each_command_names_what_it_does_not_read(self):
        snapshot = "fixtures/demo_oom.pickle"
        trace = "fixtures/traces/recorded_run_clean.fst"
        empty = self.file("empty", b"")
        self.refuses("expected a trace or a ring", "dump", snapshot)
        self.refuses("is a trace of fragscope", "explain", trace)
        self.refuses("empty", "analyze", empty)
        self.refuses("empty", "dump", empty)
        self.refuses("empty file", "record", "--from", empty, "-o", self.folder / "o")
        self.refuses("is a directory", "analyze", self.folder)
        self.refuses("is a directory", "dump", self.folder)
        self.refuses("directory", "record", "--from", self.folder, "-o", self.folder / "o")
        self.refuses("No such file", "dump", self.folder / "none")
        self.refuses("No such file", "record", "--from", self.folder / "none", "-o", "o")
        self.refuses("found a trace file", "record", "--from", trace, "-o", self.folder / "o")
        self.refuses("not a fragscope trace", "record", "--from", snapshot, "-o",
                     self.folder / "o")
        self.assertFalse((self.folder / "o").exists())

    def test_wrong_arguments_are_one_line(self):
        for arguments in (("dump",), ("record",), ("record", "--from", "a"), ("rings", "--what"),
                          ("dump", "a", "b"), ("record", "-o", "b"), ("frobnicate",)):
            with self.subTest(arguments=arguments):
                self.refuses("", *arguments)

    def test_another_version_is_refused_with_both_named(self):
        with open("fixtures/traces/recorded_run_clean.fst", "rb") as file:
            content = bytearray(file.read())
        content[8] = 2
        later = self.file("later.fst", bytes(content))
        for command in ("analyze", "dump"):
            self.refuses("the trace has version 2.0, this program reads 1.0", command, later)
        content[8], content[10] = 1, 7
        self.succeeds("analyze", self.file("minor.fst", bytes(content)))

    def test_a_header_alone_is_refused(self):
        with open("fixtures/traces/recorded_run_clean.fst", "rb") as file:
            content = file.read(4096)
        self.refuses("no records", "analyze", self.file("head.fst", content))
        self.refuses("header", "analyze", self.file("less.fst", content[:700]))


if __name__ == "__main__":
    unittest.main()
