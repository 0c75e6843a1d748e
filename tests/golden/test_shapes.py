#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the JSON of `replay`, `fit`, `stages`, `timeline`, `growth` and `diff` against docs/json.md, for every
fixture that they read. usage: test_shapes.py TOOL [unittest arguments]"""

import json
import os
from pathlib import Path
import subprocess
import sys
import unittest

from contract import course, servability, whatif

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = ""
LOGS = sorted((ROOT / "fixtures/requests").glob("*.*"))
TRACES = sorted((ROOT / "fixtures/traces").glob("*.fst"))
SNAPSHOTS = sorted((ROOT / "fixtures").glob("*.pickle*")) + sorted(
    (ROOT / "fixtures/torch").glob("*.pickle*"))


def answers(*arguments):
    """Each line as an object; none where the file is refused, in one line."""
    done = subprocess.run([TOOL, *map(str, arguments), "--json"], cwd=ROOT, capture_output=True,
                          text=True, timeout=60, check=False)
    if done.returncode == 1:
        assert done.stderr.count("\n") == 1 and not done.stdout, done.stderr
    else:
        assert done.returncode == 0 and not done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class ShapesTest(unittest.TestCase):
    maxDiff = None

    def check(self, problems, files, command, *options, at_least):
        """Every file, and how many must have an answer."""
        answered = 0
        for path in files:
            with self.subTest(command=command, file=path.name, options=options):
                for answer in answers(command, path, *options):
                    answered += 1
                    self.assertEqual(problems(answer), [])
        self.assertGreaterEqual(answered, at_least)

    def test_replay(self):
        recordings = SNAPSHOTS + TRACES
        tries = ("--conf", "expandable_segments:True", "--policy", "2.6", "--policy", "2.15",
                 "--policy", "best-fit", "--policy", "buddy", "--policy", "tlsf",
                 "--policy", "never-reuse")
        self.check(whatif.replay_problems, recordings, "replay", "--verify", at_least=60)
        for memory in ("0", "1GiB", "16GiB", "80GiB"):
            self.check(whatif.replay_problems, recordings + LOGS, "replay", "--memory", memory, *tries,
                       at_least=60)
        self.check(whatif.replay_problems, recordings, "replay", "--outside", "1GiB@0", at_least=60)

    def test_fit(self):
        files = LOGS + TRACES + SNAPSHOTS[::6]
        self.check(whatif.fit_problems, files, "fit", "--conf", "per_process_memory_fraction:0.5",
                   at_least=15)

    def test_stages(self):
        self.check(course.stages_problems, SNAPSHOTS + TRACES, "stages", at_least=60)

    def test_timeline(self):
        recordings = SNAPSHOTS + TRACES
        for options in ((), ("--request", "64MiB", "--columns", "7", "--sizes", "2MiB,30MiB,1GiB"),
                        ("--request", "3KiB", "--device-free", "1GiB", "--scan-on", "cpu")):
            self.check(servability.timeline_problems, recordings, "timeline", *options, at_least=60)

    def test_growth(self):
        for options in ((), ("--period", "auto")):
            self.check(course.growth_problems, SNAPSHOTS + TRACES, "growth", *options, at_least=60)

    def test_growth_of_several_files(self):
        for files in ([TRACES[-1]] * 2, TRACES[-3:]):
            found = answers("growth", *files)
            self.assertEqual(len(found), len(files) + 1)
            self.assertEqual(course.control_problems(found[-1]), [])
            self.assertEqual(found[-1]["runs"], len(files))

    def test_diff(self):
        files = TRACES + SNAPSHOTS[::4]
        for first, second in zip(files, files[1:] + files[:1]):
            for at in ((), ("--at", "end"), ("--at", "peak")):
                with self.subTest(a=first.name, b=second.name, at=at):
                    for answer in answers("diff", first, second, *at):
                        self.assertEqual(course.diff_problems(answer), [])

    def test_a_file_does_not_differ_from_itself(self):
        for path in TRACES + SNAPSHOTS:
            with self.subTest(file=path.name):
                for answer in answers("diff", path, path):
                    self.assertIn(answer["relation"], ("same-program-same-settings", "cannot-be-told"))
                    self.assertEqual(answer["a"], answer["b"])
                    for holder in answer["holders"]:
                        self.assertEqual((holder["a_bytes"], holder["a_blocks"]),
                                         (holder["b_bytes"], holder["b_blocks"]))

    def test_commands_agree_on_the_peak(self):
        for path in TRACES:
            with self.subTest(file=path.name):
                peak = answers("analyze", path)[0]["devices"][0]["peak"]
                stages = answers("stages", path)[0]["stages"]
                known = [stage["peak"]["allocated_bytes"] for stage in stages if stage["peak"]]
                self.assertEqual(max(known), peak["allocated_bytes"])
                difference = answers("diff", path, path, "--at", "peak")[0]
                self.assertEqual(difference["a"]["state"]["reserved_bytes"], peak["reserved_bytes"])

    def test_a_fit_is_what_replay_says(self):
        """On the smallest device it fits, and on the next smaller one not."""
        for path in LOGS + TRACES[:3]:
            for fit in answers("fit", path)[0]["fits"]:
                size = fit["smallest_device_bytes"]
                if fit["outside_bytes"] or fit["is_recorded"] or not size:
                    continue
                for memory, fits in ((size, True), (size - whatif.STEP, False)):
                    with self.subTest(file=path.name, settings=fit["name"], memory=memory):
                        replayed = answers("replay", path, "--memory", memory, "--conf", fit["conf"])
                        got = {each["name"]: each["fits"] for each in replayed[0]["variants"]}
                        self.assertEqual(got[fit["name"]], fits or memory in fit["islands_bytes"])


if __name__ == "__main__":
    TOOL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
