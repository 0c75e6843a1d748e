# SPDX-License-Identifier: Apache-2.0
"""`stages`, `growth` and `diff` on jobs of real PyTorch, recorded through both allocators and as snapshots."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "loading"))

from installed import TOOL, InstalledTest  # noqa: E402

HERE = Path(__file__).resolve().parent
JOBS = HERE / "jobs.py"
MIB = 1 << 20
WAYS = ("native", "fragscope")


def line_of(words):
    """The number of the line of jobs.py that has these words."""
    lines = JOBS.read_text().splitlines()
    number, = [number for number, line in enumerate(lines, 1) if words in line]
    return number


def lines_of(stack):
    return [frame["line"] for frame in stack["frames"] if frame["filename"] == str(JOBS)]


class Growth(InstalledTest):
    def record(self, job, way="native", conf=None, name=None):
        """The trace of the job."""
        trace = self.rings / f"{name or job}.{way}.fst"
        environment = {**os.environ, "FRAGSCOPE_RING_DIR": str(self.rings)}
        environment.pop("PYTORCH_CUDA_ALLOC_CONF", None)
        if conf:
            environment["PYTORCH_CUDA_ALLOC_CONF"] = conf
        command = [TOOL, "run", "--stacks", "python", "--allocator", way, "--out", trace, "--force", "--",
                   self.python, JOBS, job]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return trace

    def fragscope(self, *arguments):
        """Its JSON, a line each."""
        # Virtual CUDA is for PyTorch alone.
        environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        done = subprocess.run([TOOL, *map(str, arguments), "--json"], capture_output=True, text=True, check=False,
                              env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        return answers if len(answers) > 1 else answers[0]

    def test_equal_requests_then_short_and_long_ones_are_a_plateau(self):
        for way in WAYS:
            with self.subTest(way=way):
                found = self.fragscope("growth", self.record("plateau", way))
                self.assertEqual(found["kind"], "plateau")
                self.assertEqual(found["whole_repeats"], 18)
                self.assertEqual(found["low"]["slope_per_repeat"], {"median": 0, "low": 0, "high": 0})
                self.assertEqual(found["stacks"], [])

    def test_a_list_that_keeps_tensors_is_growth_by_its_line(self):
        for way in WAYS:
            with self.subTest(way=way):
                found = self.fragscope("growth", self.record("leak", way))
                self.assertEqual(found["kind"], "growth")
                # 64 rows of 1024 numbers in 32 bit.
                self.assertEqual(found["low"]["slope_per_repeat"]["median"], 64 * 1024 * 4)
                stack, = found["stacks"]
                self.assertEqual(stack["slope_per_repeat"]["median"], 64 * 1024 * 4)
                self.assertIn(line_of("# leaks, marked"), lines_of(stack))

    def test_the_same_without_marks_is_found_by_its_period(self):
        trace = self.record("unmarked_leak")
        self.assertEqual(self.fragscope("growth", trace)["kind"], "no-repeats")
        found = self.fragscope("growth", "--period", "auto", trace)
        self.assertEqual((found["kind"], found["basis"]["kind"]), ("growth", "period"))
        self.assertEqual(found["whole_repeats"], 11)
        self.assertEqual(found["low"]["slope_per_repeat"]["median"], 64 * 1024 * 4)

    def test_a_cache_that_grows_is_no_leak(self):
        found = self.fragscope("growth", self.record("growing_cache"))
        self.assertEqual(found["kind"], "cache-growth")
        self.assertEqual(found["low"]["trend"], "plateau")

    def test_stages_of_a_start_show_the_conversion(self):
        for way in WAYS:
            with self.subTest(way=way):
                found = self.fragscope("stages", self.record("start", way))
                stages = {stage["name"]: stage for stage in found["stages"]}
                placing = stages["weight placement"]
                self.assertEqual(placing["stage"], "weight-placement")
                # Eight of 16 MiB in 32 bit, and of 8 MiB in 16 bit.
                self.assertEqual(placing["peak"]["allocated_bytes"], 192 * MIB)
                self.assertEqual(placing["temporary_bytes"], 128 * MIB)
                self.assertEqual(placing["stays_bytes"], 64 * MIB)
                self.assertIn(line_of("tensor.cuda() for name"), lines_of(placing["temporary"][0]))
                self.assertIn(line_of("# converts"), lines_of(placing["stays"][0]))
                self.assertEqual(stages["request #"]["times"], 6)
                failure, = found["failures"]
                self.assertEqual((failure["name"], failure["this_thread"]), ("requests", True))
                self.assertEqual([mark["name"] for mark in found["marks"]], ["ready"])

    def test_annotations_of_a_snapshot_are_stages_at_their_places(self):
        snapshot = self.rings / "annotated.pickle"
        self.output_of(JOBS, "annotated", snapshot)
        found = self.fragscope("stages", snapshot)
        stages = {stage["name"]: stage for stage in found["stages"]}
        self.assertEqual(stages["convert"]["source"], "annotation")
        self.assertEqual(stages["convert"]["begin"]["allocated_bytes"], 64 * MIB)
        self.assertEqual(stages["convert"]["peak"]["allocated_bytes"], 96 * MIB)
        self.assertEqual(stages["convert"]["end"]["allocated_bytes"], 32 * MIB)
        self.assertEqual(stages["serve #"]["times"], 8)
        self.assertEqual(self.fragscope("growth", snapshot)["kind"], "plateau")

    def test_the_same_program_under_other_settings_is_told_from_another_program(self):
        plain = self.record("leak")
        again = self.record("leak", name="again")
        expandable = self.record("leak", conf="expandable_segments:True", name="expandable")
        other = self.record("plateau")
        for second, relation in ((again, "same-program-same-settings"),
                                 (expandable, "same-program-other-settings"),
                                 (other, "other-program-same-settings")):
            with self.subTest(relation=relation):
                self.assertEqual(self.fragscope("diff", plain, second)["relation"], relation)

    def test_a_control_that_comes_back_shows_a_difference(self):
        a, b = self.record("plateau"), self.record("growing_cache")
        *_, together = self.fragscope("growth", a, b, a)
        peak, = [layer for layer in together["control"] if layer["layer"] == "peak"]
        self.assertTrue(peak["control_comes_back"])
        self.assertTrue(peak["differs"])


if __name__ == "__main__":
    unittest.main()
