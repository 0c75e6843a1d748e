# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own allocator, recorded: nothing changes for the job, and the trace is its heap."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "trace_format"))

import attached  # noqa: E402
import read_trace  # noqa: E402
import support  # noqa: E402

TOOL = os.environ["FRAGSCOPE"]
HERE = Path(__file__).resolve().parent

# A figure of PyTorch's statistics, and what the JSON calls it.
LAYERS = {
    "reserved_bytes": "reserved_bytes", "allocated_bytes": "allocated_bytes",
    "active_bytes": "active_bytes", "requested_bytes": "requested_active_bytes",
    "inactive_split_bytes": "inactive_split_bytes",
}
READ_BY_BOTH = ("reserved_bytes", "allocated_bytes", "active_bytes", "pending_bytes",
                "requested_bytes", "segments", "blocks", "holes")


def fragscope(*arguments):
    # Virtual CUDA is for PyTorch alone.
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, check=False,
                          env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Attach(unittest.TestCase):
    way = "attach"
    # What a trace of this kind always says of itself.
    standing_signals = frozenset({"derived-sizes"})

    @classmethod
    def setUpClass(cls):
        attached.built_library()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.directory = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def start(self, name, way, *arguments, **environment):
        return subprocess.Popen(
            [sys.executable, HERE / "programs.py", name, way, *map(str, arguments)], text=True,
            env={**os.environ, "FRAGSCOPE_RING_DIR": self.directory, **environment},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_program(self, name, way, *arguments, code=-signal.SIGKILL, **environment):
        """What it said in the end."""
        process = self.start(name, way, *arguments, **environment)
        output, errors = process.communicate()
        self.assertEqual(process.returncode, code, errors)
        return json.loads(output.splitlines()[-1])

    def rings(self):
        return json.loads(fragscope("rings", "--dir", self.directory, "--json"))["rings"]

    def report(self, device=0):
        ring, = [each for each in self.rings() if each["device"] == device]
        return json.loads(fragscope("analyze", "--json", ring["path"]))

    def assert_replays(self, path, is_whole):
        """The rules, asked what the job asked, decide as it was recorded."""
        replay = json.loads(fragscope("replay", "--verify", "--json", path))
        # Only our own allocator makes the driver's calls itself; of a ring that came round there may be none left.
        is_measured = any(replay["driver_times"].values())
        if is_whole or self.way != "dropin":
            self.assertEqual(is_measured, self.way == "dropin")
        # Which of several blocks of one size is the oldest is known from the beginning on alone.
        if any("in the middle" in doubt for doubt in replay["doubts"]):
            self.assertGreater(replay["verification"]["agreed"], 0)
            return
        self.assertTrue(replay["verification"]["verified"], replay)
        self.assertEqual(replay["verification"]["agreed"], replay["verification"]["operations"])

    def assert_same(self, name, *arguments):
        """Attached or not, the job sees the same; gives what it saw."""
        native = self.run_program(name, "native", *arguments)
        ours = self.run_program(name, self.way, *arguments)
        self.assertEqual(ours, native)
        return ours

    def assert_trace_agrees(self, said, device=0, peaks=True, signals=(), replays=True):
        """The heap at the end of the trace is PyTorch's, by its statistics; gives the report."""
        report = self.report(device)
        self.assertLessEqual({each["signal"] for each in report["trust"]},
                             {*self.standing_signals, *signals}, report["trust"])
        statistics, shown = said["statistics"][device], report["devices"][0]
        for theirs, ours in LAYERS.items():
            with self.subTest(layer=theirs, device=device):
                self.assertEqual(shown["end"][ours], statistics[f"{theirs}.all.current"])
                if peaks:
                    self.assertEqual(shown["peaks"][ours], statistics[f"{theirs}.all.peak"])
        mine = read_trace.describe(read_trace.read_path(report["input"]["path"]))
        self.assertEqual(mine["contradictions"], [])
        for key in READ_BY_BOTH:
            self.assertEqual(mine["heap"][key], shown["end"][key], key)
        if replays:
            is_whole = "history-cut" not in {each["signal"] for each in report["trust"]}
            self.assert_replays(report["input"]["path"], is_whole)
        segments = [part for part in said["segments"] if part[0] == device]
        self.assertEqual(shown["end"]["segments"], len(segments))
        self.assertEqual(shown["end"]["blocks"], sum(len(part[-1]) for part in segments))
        return report

    def test_nothing_changes_in_a_mixture(self):
        for seed in range(3):
            with self.subTest(seed=seed):
                said = self.assert_same("mixture", seed)
                self.assertGreater(len(said["addresses"]), 300)

    def test_the_trace_of_a_mixture_is_its_heap(self):
        self.assert_trace_agrees(self.run_program("mixture", self.way, 5))

    def test_training(self):
        self.assert_trace_agrees(self.assert_same("training"))

    def test_two_devices(self):
        said = self.assert_same("devices")
        for device in (0, 1):
            self.assert_trace_agrees(said, device)

    def test_devices_that_are_not_in_use(self):
        said = self.assert_same("unused_devices")
        if support.version() >= (2, 15):  # Before, to set a limit made the device the current one.
            self.assertEqual((said["current"], said["contexts"][:2]), (0, [True, False]))

    def test_caching_forbidden_by_the_environment(self):
        with mock.patch.dict(os.environ, PYTORCH_NO_CUDA_MEMORY_CACHING="1"):
            said = self.assert_same("training")
        self.assertEqual(said["segments"], [])

    def test_pools_and_graphs(self):
        report = self.assert_trace_agrees(self.assert_same("pools"))
        pools = {tuple(home["pool"]) for home in report["devices"][0]["end"]["homes"]}
        self.assertEqual(len(pools), 3, pools)

    def test_the_end_of_a_pool_releases_its_own_cache(self):
        self.assert_trace_agrees(self.assert_same("gone_pool"))

    def test_set_checkpoint_pool_state(self):
        # What is handed out there is no answer to a request, and a trace does not tell them apart.
        self.assert_trace_agrees(self.assert_same("checkpoint"), peaks=False, replays=False)

    @unittest.skipIf(support.version() < (2, 15), "2.15 brought requests for an address")
    def test_requests_for_an_address(self):
        said = self.assert_same("addresses")
        self.assertEqual([len(refusals) for refusals in said["refusals"]], [3, 4])
        # The rules would have put them elsewhere, and a trace does not say that they were not asked.
        self.assert_trace_agrees(said, replays=False)

    def test_uncached_allocations_keep_their_deleter(self):
        self.assert_trace_agrees(self.assert_same("uncached"))

    def test_the_second_registry_of_allocators(self):
        said = self.assert_same("registry")
        if support.version() >= (2, 15):
            self.assertIsNotNone(said["seen"])

    def test_history_is_the_same(self):
        self.assertGreater(len(self.assert_same("history")["traces"]), 500)

    def test_settings_at_run_time(self):
        report = self.assert_trace_agrees(self.assert_same("settings"),
                                          signals={"settings-changed"})
        self.assertIn("settings-changed", {each["signal"] for each in report["trust"]})

    @unittest.skipIf(support.version() < (2, 10), "the option is newer than this PyTorch")
    def test_a_fraction_in_the_settings(self):
        with mock.patch.dict(os.environ, PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:0.5"):
            said = self.assert_same("fraction")
        self.assertIn("out of memory", said["outcome"])
        self.assertEqual(self.report()["failures"][0]["verdict"]["kind"], "limit")

    def test_threads(self):
        self.assert_trace_agrees(self.run_program("threads", self.way), peaks=False,
                                 signals={"history-cut"})

    def test_a_ring_that_came_round(self):
        for device in (0, 1):
            with self.subTest(device=device):
                report = self.assert_trace_agrees(self.run_program("long", self.way, device), device, peaks=False,
                                                  signals={"history-cut"})
                self.assertIn("history-cut", {each["signal"] for each in report["trust"]})

    def test_a_running_process(self):
        self.assert_trace_agrees(self.run_program("mixture", "middle", 2), peaks=False)

    def test_a_running_process_that_does_nothing_more(self):
        self.assert_trace_agrees(self.run_program("mixture", "middle", 2, 0), peaks=False)

    def test_failures(self):
        snapshot = f"{self.directory}/snapshot.pickle"
        native = self.run_program("failure", "native", SNAPSHOT=snapshot)["messages"]
        said = self.run_program("failure", self.way, SNAPSHOT=snapshot)
        ring, = self.rings()
        line = f"\nfragscope analyze {ring['path']} says why."
        # One of more than an exbibyte is refused before anything is decided.
        self.assertEqual(said["messages"],
                         [native[0] + line, native[1], native[2] + line, native[3] + line])
        report = self.assert_trace_agrees(said)
        self.assertEqual(ring["failures"], 4)
        self.assertEqual(report["failures"][0]["verdict"]["kind"], "impossible")
        self.assertEqual(report["failures"][3]["verdict"]["kind"], "fragmented")

        theirs = json.loads(fragscope("analyze", "--json", snapshot, "--device-total", "24GiB"))
        self.assertEqual(len(theirs["failures"]), 4)
        for mine, other in zip(report["failures"], theirs["failures"]):
            for key in ("kind", "certainty", "short_by_bytes"):
                self.assertEqual(mine["verdict"][key], other["verdict"][key])
            self.assertEqual(mine["ladder"], other["ladder"])
            for key in ("size_bytes", "need_bytes", "stream", "pool", "class"):
                self.assertEqual(mine["request"][key], other["request"][key])

    def stages_of(self, said, report):
        """What the trace says was done: (what, text, source, whether by the main thread)."""
        marks = read_trace.describe(read_trace.read_path(report["input"]["path"]))["marks"]
        return [(mark["what"], mark["text"], mark["source"], mark["thread"] == said["thread"]) for mark in marks]

    def test_stages(self):
        for history in ("off", "on"):
            with self.subTest(history=history):
                said = self.run_program("stages", self.way, history)
                report = self.assert_trace_agrees(said)
                stages = self.stages_of(said, report)
                path = report["input"]["path"]
                # The independent reader, dump and analyze say the same.
                dump = fragscope("dump", path)
                self.assertEqual(dump.count(" mark "), len(stages))
                self.assertEqual(len([line for line in dump.splitlines()
                                      if 'mark begin "inner" annotation' in line]), 1)
                self.assertNotIn("inner", fragscope("dump", "--redact", path))
                named = [stage for stage in stages if stage[1] not in ("empty", "Optimizer.step#SGD.step")]
                annotations = [("begin", "before CUDA"), ("end", "before CUDA"), ("begin", "forward"),
                               ("begin", "inner"), ("end", "inner"), ("end", "forward"), ("begin", "beside"),
                               ("end", "beside"), ("begin", "ProfilerStep#0"), ("end", "ProfilerStep#0"),
                               ("begin", "ProfilerStep#1"), ("end", "ProfilerStep#1"),
                               ("begin", "ProfilerStep#2"), ("end", "ProfilerStep#2")]
                expected = [(*each, "annotation", each[1] != "beside") for each in annotations]
                self.assertEqual(named[0], ("begin", "the job", "program", True))
                self.assertEqual(named[1:1 + len(expected)], expected)
                self.assertIn(("point", "a point", "program", True), named)
                self.assertIn(("begin", "Optimizer.step#SGD.step", "annotation", True), stages)
                self.assertIn(("end", "Optimizer.step#SGD.step", "annotation", True), stages)
                # Of twenty thousand that say nothing, few are in the trace.
                self.assertLess(sum(stage[1] == "empty" for stage in stages), 10_000)
                peak = report["devices"][0]["peak"]["stages"]
                self.assertEqual([(each["name"], each["source"]) for each in peak], [("the job", "program")])
                failure, = report["failures"]
                self.assertEqual([(each["name"], each["source"], each["this_thread"])
                                  for each in failure["stages"]],
                                 [("the job", "program", True), ("forward", "annotation", True),
                                  ("inner", "annotation", True)])
                self.assertIn("STAGES", fragscope("analyze", path))
                times = [each["time_us"] for each in failure["stages"]]
                self.assertEqual(times, sorted(times))
                self.assertLess(times[-1], failure["time_us"] + 1)
                # What PyTorch's own history has is what it had.
                self.assertEqual(said["annotations"].count("forward"), 2 if history == "on" else 0)
                os.unlink(path)

    def test_stages_of_any_number_of_names(self):
        said = self.run_program("names", self.way, 60_000, code=-signal.SIGKILL)
        report = self.assert_trace_agrees(said, peaks=False, signals={"history-cut"})
        marks = read_trace.describe(read_trace.read_path(report["input"]["path"]))["marks"]
        self.assertEqual(marks[-1]["text"], "batch # of an epoch")

    def test_call_stacks(self):
        for stacks in ("python", "all"):
            with self.subTest(stacks=stacks):
                self.run_program("stacks", self.way, stacks)
                ring, = self.rings()
                report = json.loads(fragscope("analyze", "--json", ring["path"]))
                failure, = report["failures"]
                frames = failure["request"]["frames"]
                in_python = [frame["name"] for frame in frames if frame["filename"].endswith(".py")]
                self.assertEqual(in_python[:3], ["allocate", "failing", "run_stacks"])
                lines = [frame["line"] for frame in frames if frame["filename"].endswith("support.py")]
                source = (HERE.parent / "support.py").read_text().splitlines()
                self.assertIn("torch.empty", source[lines[0] - 1])
                # Compiled code is there only where it was asked for.
                self.assertEqual(len(in_python) < len(frames), stacks == "all")
                holder, = [each for each in failure["holders"] if each["bytes"] >= 30 << 20]
                self.assertIn("asks_for_memory", [frame["name"] for frame in holder["frames"]])
                self.assertIn("asks_for_memory", fragscope("dump", "--stacks", ring["path"]))
                os.unlink(ring["path"])

    def test_requests_while_names_of_code_are_taken(self):
        said = self.run_program("collections", self.way, "python")
        self.assertGreater(said["held"], 100)

    def test_a_segments_stack_is_of_its_first_request_until_it_is_cut(self):
        stacks = self.assert_same("split")["stacks"]
        segments = [[functions for functions, _ in look] for look in stacks]
        if support.EXPANDABLE:  # Whole pages are mapped, so that the first request cuts them already.
            return
        self.assertIn("first", segments[0][0])  # Whole: handed out,
        self.assertIn("first", segments[1][0])  # and given back.
        self.assertNotIn("first", sum(segments[2], []))
        _, blocks = stacks[2][0]
        self.assertIn("second", blocks[0][2])

    def test_raw_memory_while_caching_is_off(self):
        said = self.assert_same("raw_uncached")
        held = said["held"]
        self.assertEqual(held[-1][1], held[0][1])  # Nothing of it is counted as allocated any more.

    def test_killed_at_any_moment(self):
        draw = random.Random(6)
        for _ in range(8):
            process = self.start("until_killed", self.way)
            self.assertEqual(process.stdout.readline(), "goes on\n")
            time.sleep(draw.uniform(0, 1))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            ring, = self.rings()
            report = json.loads(fragscope("analyze", "--json", ring["path"]))
            self.assertEqual(ring["state"], "dead")
            self.assertLessEqual({each["signal"] for each in report["trust"]},
                                 {*self.standing_signals, "history-cut"})
            self.assertGreater(report["devices"][0]["end"]["allocated_bytes"], 8192 * 256 * 4)
            os.unlink(ring["path"])

    def test_a_forked_child_leaves_no_record(self):
        self.assert_trace_agrees(self.run_program("fork", self.way))

    def test_an_end_with_tensors_that_outlive_everything(self):
        self.run_program("exit", self.way, code=0)
        ring, = self.rings()
        self.assertEqual((ring["state"], ring["failures"]), ("ended", 0))

    def test_without_a_ring_the_job_goes_on(self):
        process = self.start("training", self.way, FRAGSCOPE_RING_DIR="/nowhere/at/all")
        output, errors = process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL, errors)
        self.assertEqual(errors.count("is not recorded"), 1, errors)
        self.assertEqual(json.loads(output), self.run_program("training", "native"))

    def test_exports_are_ours(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", attached.built_library()],
                                check=True, capture_output=True, text=True).stdout
        strong = [line.split()[-1] for line in listed.splitlines() if line.split()[-2] in "TDB"]
        self.assertIn("fragscope_torch_install", strong)
        self.assertEqual([name for name in strong if not name.startswith("fragscope_")], [])


if __name__ == "__main__":
    unittest.main()
