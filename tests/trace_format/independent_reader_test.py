#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds `analyze --json` of rings and trace files against read_trace.py, which knows nothing but
docs/trace_format.md. usage: independent_reader_test.py TOOL RECORDED_RUN [unittest arguments]"""

from collections import Counter
import json
import os
from pathlib import Path
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import read_trace

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = ""
RECORDED_RUN = ""

# seed, steps, records of the ring, how it ends. The first four keep every record, the others come
# round, and those with 1024 keep one keyframe at most.
RUNS = [
    (1, 900, 65536, "clean"),
    (2, 900, 65536, "fail"),
    (3, 900, 65536, "kill"),
    (4, 900, 65536, "fail-kill"),
    (5, 6000, 4096, "clean"),
    (6, 6000, 4096, "fail"),
    (7, 6000, 4096, "kill"),
    (8, 6000, 4096, "fail-kill"),
    (9, 2500, 4096, "clean"),
    (10, 2500, 4096, "kill"),
    (17, 6000, 1024, "fail"),
    (14, 6000, 1024, "kill"),
    (16, 12000, 4096, "clean"),
    (15, 12000, 4096, "fail-kill"),
]
FIGURES = ("reserved_bytes", "allocated_bytes", "active_bytes", "pending_bytes", "requested_bytes",
           "segments", "blocks", "holes")


def record(directory, seed, steps, records, end, *options):
    """The path of a ring. Dead rings beside a new one are cleared away, so each has its folder."""
    folder = Path(directory) / "-".join(map(str, ("run", seed, steps, records, end, *options)))
    folder.mkdir()
    done = subprocess.run(
        [RECORDED_RUN, "--directory", folder, "--seed", str(seed), "--steps", str(steps),
         "--records", str(records), "--end", end, *options],
        capture_output=True, text=True, timeout=60, check=False)
    assert re.search(r"^ring ", done.stdout, re.M), done.stdout + done.stderr
    [ring] = folder.glob("*.ring")
    return ring


def drain(ring, *options):
    file = ring.with_suffix(".fst")
    subprocess.run([TOOL, "record", "--from", ring, "-o", file, "--once", "--force", *options],
                   capture_output=True, timeout=60, check=True)
    return file


def analyze(path, *options):
    return subprocess.run([TOOL, "analyze", "--json", *options, path], cwd=ROOT,
                          capture_output=True, text=True, timeout=60, check=False)


def theirs(path, *options):
    done = analyze(path, *options)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout)


def mine(path):
    return read_trace.describe(read_trace.read_path(path))


def figures(state):
    return {name: state[name] for name in FIGURES}


def failures_of(answer):
    return [{
        "record": each["event"],
        "rounded": each["request"]["size_bytes"],
        "requested": each["request"]["asked_bytes"],
        "device_free": each["state"]["device_free_bytes"],
        "heap": figures(each["state"]),
    } for each in answer["failures"]]


def frames_of(answer):
    frames = Counter()
    for holder in answer["failures"][0]["holders"]:
        frame = holder["frames"][0]
        frames[f"{frame['name']} ({frame['filename']}:{frame['line']})"] += holder["bytes"]
    return dict(frames)


class IndependentReader(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.rings = {run: record(cls.directory.name, *run) for run in RUNS}

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def check(self, path):
        """Both readers take this trace for the same. Returns what they say."""
        own, other = mine(path), theirs(path)
        signals = {each["signal"] for each in other["trust"]}
        self.assertEqual(own["records"], other["input"]["events"])
        self.assertEqual(own["end"] - own["first"], other["devices"][0]["events"])
        # The tool answers only for failures at which the heap is known.
        judged = [each for each in own["failures"] if each["heap"]]
        self.assertEqual(judged, failures_of(other))
        self.assertEqual(len(judged) < len(own["failures"]), "failures-not-judged" in signals)
        self.assertEqual(bool(own["contradictions"]), "records-contradict" in signals)
        self.assertEqual(own["heap"] is None, "end-not-known" in signals)
        self.assertEqual(own["first"] > 0, "history-cut" in signals)
        self.assertEqual(own["lost"]["damaged"] > 0, "damaged-records" in signals)
        if own["heap"]:
            self.assertEqual(own["heap"], figures(other["devices"][0]["end"]))
            self.check_frames(path, own)
        return own, other

    def check_frames(self, path, own):
        at_end = theirs(path, "--at", "end", "--request", "512")
        if at_end["failures"][0]["holder_count"] == len(at_end["failures"][0]["holders"]):
            self.assertEqual(own["frames"], frames_of(at_end))

    def changed(self, run, name, change):
        """A copy of the ring of a run, into which change(data, slot, written) wrote."""
        data = bytearray(self.rings[run].read_bytes())
        header = read_trace.Header(data)

        def slot(number):
            return header.record_offset + number % header.record_capacity * header.record_bytes

        change(data, slot, header.written)
        path = self.rings[run].with_name(f"{name}.ring")
        path.write_bytes(data)
        return path

    def test_rings_and_their_files(self):
        came_round = 0
        for run, ring in self.rings.items():
            with self.subTest(run=run, form="ring"):
                own, _ = self.check(ring)
                self.assertEqual([], own["contradictions"])
                self.assertEqual(own["first"], own["lost"]["overwritten"])
                self.assertIsNotNone(own["heap"])
                self.assertGreater(len(own["failures"]), 0)
                came_round += own["first"] > 0
                with self.subTest(run=run, form="file"):
                    drained, _ = self.check(drain(ring))
                    for name in ("first", "end", "records", "kinds", "failures",
                                 "failures_of_header", "known_from", "heap", "frames"):
                        self.assertEqual(own[name], drained[name], name)
        self.assertEqual(10, came_round)

    def test_what_the_driver_took(self):
        for run in RUNS[:2]:
            ring = self.rings[run]
            done = subprocess.run([TOOL, "replay", "--json", ring], capture_output=True, text=True,
                                  timeout=60, check=True)
            other = json.loads(done.stdout)
            own = list(mine(ring)["driver_times"].values())
            self.assertEqual(own, list(other["driver_times"].values()))
            self.assertEqual(len([each for each in own if each]), 4)
            self.assertIsNotNone(other["variants"][0]["driver"]["estimated_ns"])

    def test_a_record_that_the_killed_writer_did_not_count(self):
        def change(data, slot, written):
            struct.pack_into("<Q", data, 56, written - 1)

        for run in RUNS[2], RUNS[6]:
            with self.subTest(run=run):
                path = self.changed(run, "uncounted", change)
                self.assertEqual(mine(self.rings[run]), self.check(path)[0])
                self.check(drain(path))

    def test_a_record_that_the_killed_writer_did_not_finish(self):
        def change(data, slot, written):
            struct.pack_into("<Q", data, slot(written), (written + 1) | 1 << 63)

        for run in RUNS[2], RUNS[6]:
            with self.subTest(run=run):
                path = self.changed(run, "torn", change)
                own, _ = self.check(path)
                self.assertEqual(1, own["lost"]["torn"])
                self.assertEqual(1, self.check(drain(path))[0]["lost"]["torn"])

    def test_a_record_in_the_middle_is_lost(self):
        for run in RUNS[1], RUNS[8], RUNS[9]:
            for name, rounds in (("damaged", None), ("lapped", 1)):
                with self.subTest(run=run, name=name):
                    def change(data, slot, written, rounds=rounds, capacity=run[2]):
                        number = written - min(written, capacity) * 3 // 4
                        word = number + 1 + rounds * capacity if rounds else 0
                        struct.pack_into("<Q", data, slot(number), word)

                    path = self.changed(run, name, change)
                    own, _ = self.check(path)
                    self.assertEqual(own["records"] + 1, own["end"] - own["first"])
                    self.check(drain(path))

    def test_the_last_record_is_lost(self):
        path = self.changed(
            RUNS[0], "last", lambda data, slot, written: struct.pack_into("<Q", data, slot(written - 1), 0)
        )
        for each in path, drain(path):
            own, other = self.check(each)
            self.assertIsNone(own["heap"])
            self.assertIn("end-not-known", [signal["signal"] for signal in other["trust"]])

    def test_a_kind_of_record_that_is_not_known(self):
        def change(data, slot, written):
            [limit, *_] = [number for number in range(written) if data[slot(number) + 54] == 14]
            data[slot(limit) + 54] = 200

        path = self.changed(RUNS[0], "kind", change)
        own, other = self.check(path)
        self.assertEqual(1, own["kinds"]["unknown 200"])
        self.assertIn("unknown-kinds", [each["signal"] for each in other["trust"]])

    def test_records_that_do_not_fit_are_left_out(self):
        def change(data, slot, written):
            [block, *_] = [number for number in range(written) if data[slot(number) + 54] == 5]
            data[slot(block) + 54] = 200

        own, _ = self.check(self.changed(RUNS[0], "contradicts", change))
        self.assertEqual(2, len(own["contradictions"]))

    def test_a_file_that_was_cut_off(self):
        file = drain(self.rings[RUNS[4]])
        data = file.read_bytes()
        for bytes_left in (len(data) - 1, len(data) - 1480 - 32):
            with self.subTest(bytes_left=bytes_left):
                file.write_bytes(data[:bytes_left])
                self.check(file)

    def test_a_ring_without_a_whole_keyframe(self):
        ring = record(self.directory.name, 12, 6000, 256, "clean")
        self.assertIsNone(mine(ring)["known_from"])
        done = analyze(ring)
        self.assertEqual(1, done.returncode)
        self.assertIn("not replayable from here", done.stderr)

    def test_who_uses_the_device(self):
        for records in 65536, 4096:
            ring = record(self.directory.name, 5, 6000, records, "fail", "--uses", "1")
            for path in ring, drain(ring):
                own, other = self.check(path)
                self.assertEqual({"driver": "570.1", "nvml": "present"}, own["facts"])
                self.assertEqual(own["facts"], other["input"]["facts"])
                # Other failures of the program have none.
                last = other["failures"][-1]
                self.assertEqual(own["uses"][last["event"]], last["processes"])
                self.assertEqual([7, 8, 9], [each["pid"] for each in last["processes"]])
                for each in other["failures"][:-1]:
                    self.assertNotIn("processes", each)
                    self.assertIsNone(own["uses"][each["event"]])
                dump = subprocess.run([TOOL, "dump", path], capture_output=True, text=True,
                                      timeout=60, check=True).stdout
                self.assertIn('# fact driver="570.1"\n', dump)
                self.assertIn(' process pid=7 bytes=1073741824 name="python" thread=', dump)
                self.assertIn(' process pid=8 bytes=unknown name="" thread=', dump)
                self.assertIn(' this_process pid=9 bytes=2147483648 name="" thread=', dump)
                self.assertNotIn("unknown", own["kinds"])

    def test_a_packed_file(self):
        file = drain(self.rings[RUNS[5]], "--zstd")
        if read_trace.zstd:
            self.check(file)
            return
        with self.assertRaisesRegex(read_trace.Refused, "zstd"):
            mine(file)

    def test_the_examples_of_the_document(self):
        text = (ROOT / "docs/trace_format.md").read_text(encoding="utf-8")
        lines = re.findall(r"^((?:[0-9a-f]{2} {1,2}){8,16}) +\S", text, re.M)
        data = bytes.fromhex("".join(lines))
        self.assertEqual(64 + 24, len(data))
        block = read_trace.Record(2, data, 0)
        self.assertEqual(3, read_trace.commit_of(data, 0))
        self.assertEqual((7, 0x200000000000), (block.ticks, block.address))
        self.assertEqual((1024, 1000), (block.size, block.other))
        self.assertEqual((0, 9, 0, 0), (block.stream, block.thread, block.stack, block.pool))
        self.assertEqual((5, 0, 0), (block.kind, block.flags, block.device))
        self.assertEqual("a.py", read_trace.Table(data[64:]).text(1))


if __name__ == "__main__":
    TOOL = os.path.abspath(sys.argv.pop(1))
    RECORDED_RUN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
