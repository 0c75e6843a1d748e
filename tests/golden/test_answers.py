#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds `analyze --json` against the contract's shape and against what fixtures/README.md works out
by hand for each fixture. usage: test_answers.py TOOL [unittest arguments]"""

import itertools
import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile
import unittest

from contract import analyze as contract
from contract.analyze import problems
from torch_answers import TORCH_STATES, TORCH_VERDICTS

ROOT = Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20
KIB = 1 << 10
TOOL = ""


def run(*arguments):
    return subprocess.run([TOOL, "analyze", *arguments], cwd=ROOT, capture_output=True, text=True,
                          timeout=60, check=False)


def answer(fixture, *options):
    suffix = ".pickle.zst" if fixture.startswith("torch/") else ".pickle"
    done = run("--json", f"fixtures/{fixture}{suffix}", *options)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout)


# fixture, options, then what the README says: kind, certainty, rung and more of what is checked.
VERDICTS = [
    ("demo_oom", (), {
        "kind": "fragmented", "rung": 6, "size": 1792, "need": 1792, "free": 85, "home": 14168,
        "home_holes": 16, "hole": 1176, "window": 1792, "pinned": 21, "pin": "probes.py:63"}),
    ("verdict_servable", (), {
        "kind": "servable", "rung": 1, "size": 1300, "need": 1300, "hole": 1400, "free": 739}),
    ("verdict_not_explained", (), {
        "kind": "not-explained", "rung": 2, "need": 6144, "free": 27530}),
    ("verdict_releasable_mempool_thread", (), {
        "kind": "releasable", "rung": 3, "need": 4096, "free": 2747, "releasable": 6144}),
    ("verdict_releasable_capture", (), {
        "kind": "releasable", "rung": 3, "pool": [1, 0], "need": 7168, "free": 6287,
        "releasable": 8192}),
    ("verdict_limit_settings", ("--device-total", "85520809984"), {
        "kind": "limit", "rung": 4, "limit": 40779.5, "reserved": 32768, "need": 9216,
        "free": 48271}),
    ("verdict_limit_runtime", ("--limit", "10574364672"), {
        "kind": "limit", "rung": 4, "limit": 10084.5, "reserved": 8192, "need": 3072,
        "free": 31626}),
    ("verdict_stranded_stream", (), {
        "kind": "stranded", "by": ["stream"], "rung": 5, "size": 1536, "need": 1536, "free": 1211}),
    ("verdict_stranded_class", (), {
        "kind": "stranded", "by": ["class"], "rung": 5, "size": 1, "need": 2, "free": 1}),
    ("verdict_stranded_class_full_card", (), {
        "kind": "stranded", "by": ["class"], "rung": 5, "also": ["capacity-pressure"], "size": 1,
        "need": 2, "free": 1, "allocated": 23530}),
    ("verdict_stranded_pool", (), {
        "kind": "stranded", "by": ["pool"], "rung": 5, "size": 2560, "need": 2560, "free": 2243}),
    # Files of 2.6 do not name the pool of a request.
    ("verdict_stranded_pending", ("--pool", "1,0"), {
        "kind": "stranded", "by": ["pending"], "rung": 5, "pool": [1, 0], "size": 1792,
        "need": 1792, "free": 1147, "pending": 2048}),
    ("verdict_stranded_oversize", ("--pool", "1,0"), {
        "kind": "stranded", "by": ["oversize"], "rung": 5, "pool": [1, 0], "size": 448,
        "need": 460, "free": 419, "hole": 3080}),
    ("verdict_stranded_expandable", (), {
        "kind": "stranded", "by": ["expandable"], "rung": 5, "size": 5, "need": 20, "free": 12,
        "hole": 18}),
    ("verdict_fragmented_across_segments", (), {
        "kind": "fragmented", "rung": 6, "size": 1024, "need": 1024, "free": 269, "home": 2880}),
    ("verdict_scattered", (), {
        "kind": "scattered", "rung": 7, "size": 2048, "need": 2048, "free": 201, "home": 600,
        "free_in_all": 2500}),
    ("verdict_external", ("--device-total", "25437405184"), {
        "kind": "external", "rung": 8, "need": 4096, "free": 2451}),
    ("verdict_external", (), {"kind": "capacity", "short": 1645, "unknown_rungs": [8, 9]}),
    ("verdict_capacity", (), {
        "kind": "capacity", "short": 837, "also": ["capacity-pressure"], "need": 2048,
        "free": 1211}),
    ("verdict_capacity_rounding", (), {
        "kind": "capacity", "short": 1277, "also": ["rounding", "capacity-pressure"],
        "size": 1536, "need": 1536, "free": 259, "rounding": 6540}),
    ("verdict_impossible", ("--device-total", "25437405184"), {
        "kind": "impossible", "need": 65536, "free": 19643}),
    ("verdict_impossible", (), {"kind": "capacity", "short": 45893}),
    ("verdict_unknown", ("--request", "8GiB"), {
        "kind": "unknown", "certainty": "possible", "missing": ("device_free", 8192)}),
    ("verdict_unknown", ("--request", "8GiB", "--device-free", "10GiB"), {
        "kind": "servable", "rung": 2}),
    ("trap_ring_cut_size_is_a_bound", (), {
        "kind": "capacity", "need": 2048, "free": 1109,
        "allocated_bounds": (int(22587.5 * MIB) + 17 * KIB, int(22588.5 * MIB) + 17 * KIB)}),
    ("trap_ring_cut_size_from_neighbour", (), {
        "kind": "capacity", "need": 2048, "free": 1111, "allocated": 22618}),
    ("trap_block_takes_whole_hole", (), {
        "kind": "capacity", "need": 2048, "free": 1111, "allocated": 22588, "requested": 22587.5,
        "home": 40}),
    ("trap_dump_much_later", (), {
        "kind": "capacity", "short": 837, "size": 2048, "need": 2048, "free": 1211,
        "reserved": 22528, "allocated": 22528}),
    ("pickler_torchscript_protocol2", (), {
        "kind": "capacity", "short": 837, "size": 2048, "need": 2048, "free": 1211,
        "reserved": 22528, "allocated": 22528}),
    ("trap_oom_then_retry", (), {
        "kind": "capacity", "short": 1349, "size": 1536, "need": 1536, "free": 187}),
    ("trap_small_request", (), {
        "kind": "capacity", "short": 1, "also": ["capacity-pressure"], "need": 2, "free": 1}),
    ("trap_pending_at_failure", (), {
        "kind": "releasable", "rung": 3, "size": 3584, "need": 3584, "free": 2675,
        "pending": 4096}),
    ("trap_segment_vanished_pool_id", (), {
        "kind": "stranded", "by": ["pool"], "rung": 5, "size": 2560, "need": 2560, "free": 2243}),
    ("trap_no_history", ("--request", "320MiB"), {"kind": "servable", "rung": 1, "hole": 384}),
    ("trap_failure_on_second_device", (), {
        "kind": "capacity", "device": 1, "short": 1785, "size": 8192, "need": 8192, "free": 5895,
        "home": 512}),
    ("trap_graph_temporaries", (), {
        "kind": "scattered", "rung": 7, "size": 1536, "need": 1536, "free": 201,
        "free_in_all": 2100}),
    ("trap_stream_handles_64bit", (), {
        "kind": "stranded", "by": ["stream"], "rung": 5, "size": 1536, "need": 1536, "free": 1211,
        "stream": 94353328698032}),
    ("trap_oversize_segment", ("--request", "290MiB"), {"kind": "servable", "rung": 1}),
    ("trap_expandable_middle_gap", (), {
        "kind": "capacity", "size": 110, "need": 100, "free": 80, "home": 10}),
    ("trap_roundup_divisions", (), {
        "kind": "capacity", "short": 33, "size": 1280, "need": 1280, "free": 1247,
        "reserved": 22316}),
    ("trap_adjacent_segments", (), {
        "kind": "fragmented", "rung": 6, "size": 1000, "need": 1000, "free": 287, "hole": 600}),
    ("trap_driver_keeps_last_megabytes", (), {
        "kind": "capacity", "size": 1024, "need": 1024, "free": 1037, "reserved": 22702}),
]

# fixture, device, then MiB at the end, and the peak: MiB and event.
ERA = {"reserved": 630, "allocated": 512 + 32 / 1024, "pending": 12, "free": 106 - 32 / 1024,
       "releasable": 96}
ERA_PEAK = (608 + 48.5 / 1024, 28)
STATES = [
    ("era_1_12_list", 0, {**ERA, "requested": None}, None),
    ("era_1_13_list_history", 0, {**ERA, "requested": None}, None),
    *[(f"era_{name}", 0, ERA, ERA_PEAK) for name in (
        "2_0_history", "2_1_frames", "2_2_time", "2_3_settings", "2_5_annotations",
        "2_8_compile_context", "2_10_user_metadata", "2_12_pool_id", "2_15_host")],
    ("pickler_python_protocol3", 0, ERA, ERA_PEAK),
    ("trap_bytes_after_stop", 0, ERA, ERA_PEAK),
    ("trap_clock_backwards", 0, ERA, ERA_PEAK),
    ("trap_unmatched_frees", 0, ERA, None),
    ("trap_skip_actions", 0, ERA, (ERA_PEAK[0], 27)),
    ("trap_unknown_actions", 0, ERA, (ERA_PEAK[0], 29)),
    ("trap_ring_cut_inside_a_free", 0, ERA, (524 + 32 / 1024, 5)),
    ("trap_dump_much_later", 0, {"reserved": 8450, "allocated": 8448}, None),
    ("trap_zero_segments", 0, {"reserved": 0, "allocated": 0, "free": 0}, (164 + 8 / 1024, 5)),
    ("trap_no_history", 0, {"reserved": 1026, "allocated": 640 + 8 / 1024}, None),
    ("trap_ascend_rounding", 0, {"reserved": 132, "allocated": 96 + 17.5 / 1024}, None),
    ("trap_two_devices", 0, {"reserved": 4098, "allocated": 4096 + 4 / 1024}, None),
    ("trap_two_devices", 1, {"reserved": 1280, "allocated": 1024, "releasable": 256}, (1280, 5)),
    ("trap_addresses_above_2_47", 0, {"reserved": 1026, "allocated": 1024 + 4 / 1024}, None),
    ("trap_addresses_above_2_47", 1, {"reserved": 1026, "allocated": 1024 + 4 / 1024}, None),
    ("trap_oversize_segment", 0, {"reserved": 800, "allocated": 500, "free": 300}, (500, 12)),
    ("trap_oom_then_retry", 0, {"reserved": 23040, "allocated": 23040}, None),
    ("trap_several_failures", 0, {"reserved": 23552}, None),
    ("trap_segment_vanished", 0, {"reserved": 18432}, None),
    ("trap_roundup_divisions", 0, {}, (23084, 23)),
    ("verdict_unknown", 0, {"reserved": 10240, "allocated": 8192, "releasable": 2048}, None),
]

SIGNALS = [
    ("trap_ring_cut_inside_a_free", "history-cut"),
    ("trap_skip_actions", "skipped-actions"),
    ("trap_unknown_actions", "unknown-actions"),
    ("trap_dump_much_later", "dump-later-than-failure"),
    ("trap_clock_backwards", "clock-goes-back"),
    ("trap_ascend_rounding", "other-writer"),
    ("trap_no_history", "no-history"),
]


def facts_of(failure):
    """What VERDICTS name, out of one failure; sizes in MiB."""
    request, state, verdict = failure["request"], failure["state"], failure["verdict"]
    same_home = lambda home: all(home[key] == request[key] for key in ("pool", "class", "stream"))
    homes = [home for home in state["homes"] if same_home(home)]
    fits = [rung["fits"] for rung in failure["ladder"]]
    pins = failure["pins"] or {"window_bytes": 0, "live_bytes": 0, "blocks": []}
    innermost = [f"{Path(pin['frames'][0]['filename']).name}:{pin['frames'][0]['line']}"
                 for pin in pins["blocks"] if pin["frames"]]
    sizes = {
        "size": request["size_bytes"], "need": request["need_bytes"],
        "free": state["device_free_bytes"], "limit": state["limit_bytes"],
        "reserved": state["reserved_bytes"], "allocated": state["allocated_bytes"],
        "requested": state["requested_bytes"], "pending": state["pending_bytes"],
        "releasable": state["gap"]["releasable_bytes"], "rounding": state["gap"]["rounding_bytes"],
        "free_in_all": state["free_bytes"], "home": sum(home["free_bytes"] for home in homes),
        "hole": max([home["largest_hole_bytes"] for home in homes], default=0),
        "short": verdict["short_by_bytes"], "window": pins["window_bytes"],
        "pinned": pins["live_bytes"]}
    facts = {name: None if value is None else value / MIB for name, value in sizes.items()}
    facts.update({
        "kind": verdict["kind"], "certainty": verdict["certainty"], "by": verdict["stranded_by"],
        "also": verdict["also"], "device": failure["device"], "pool": request["pool"],
        "stream": request["stream"], "home_holes": sum(home["holes"] for home in homes),
        "rung": fits.index(True) + 1 if True in fits else None,
        "unknown_rungs": [rung["rung"] for rung in failure["ladder"] if rung["fits"] is None],
        "pin": innermost[0] if innermost else None,
        "allocated_bounds": (state["allocated_bytes"], state.get("allocated_high_bytes"))})
    return facts


class AnswersTest(unittest.TestCase):
    maxDiff = None

    def test_every_verdict_is_the_one_worked_out_by_hand(self):
        for fixture, options, expected in VERDICTS + TORCH_VERDICTS:
            with self.subTest(fixture=fixture, options=options):
                failures = answer(fixture, *options)["failures"]
                self.assertEqual(len(failures), 1)
                expected = {"certainty": "proven", "by": [], **expected}
                missing = expected.pop("missing", None)
                facts = facts_of(failures[0])
                if "also" in expected:
                    expected["also"] = sorted(expected["also"])
                    facts["also"] = sorted(facts["also"])
                self.assertEqual({key: facts[key] for key in expected}, expected)
                if missing:
                    self.assertIn({"fact": missing[0], "threshold_bytes": missing[1] * MIB},
                                  failures[0]["verdict"]["missing"])

    def test_real_pytorch_left_every_verdict_and_every_barrier(self):
        kinds = {expected["kind"] for _, _, expected in TORCH_VERDICTS}
        barriers = {each for _, _, expected in TORCH_VERDICTS for each in expected.get("by", [])}
        self.assertEqual(kinds, set(contract.VERDICTS))
        self.assertEqual(barriers, set(contract.BARRIERS))

    def test_every_state_is_the_one_worked_out_by_hand(self):
        for fixture, device, end, peak in STATES + TORCH_STATES:
            with self.subTest(fixture=fixture, device=device):
                devices = {each["device"]: each for each in answer(fixture)["devices"]}
                state = devices[device]["end"]
                for name, expected in end.items():
                    held = state["gap"] if name == "releasable" else state
                    got = held[f"{name}_bytes"]
                    self.assertEqual(got if got is None else got / MIB, expected, name)
                if peak:
                    self.assertEqual(devices[device]["peak"]["allocated_bytes"] / MIB, peak[0])
                    self.assertEqual(devices[device]["peak"]["event"], peak[1])

    def test_weak_evidence_is_named(self):
        for fixture, signal in SIGNALS:
            with self.subTest(fixture=fixture):
                self.assertIn(signal, [each["signal"] for each in answer(fixture)["trust"]])

    def test_frees_without_their_hand_out_are_counted(self):
        signals = [each["signal"] for each in answer("trap_unmatched_frees")["trust"]]
        self.assertIn("unmatched-frees", signals)

    def test_the_pool_of_a_vanished_hole_is_no_proof(self):
        # The hole truly lies in a private pool; the file, of 2.6, cannot tell.
        verdict = answer("trap_segment_vanished")["failures"][0]["verdict"]
        self.assertEqual(verdict["certainty"], "possible", verdict["kind"])

    def test_the_cheapest_pins_may_be_whole_segments(self):
        # Five segments of 160 MiB with 40 MiB live each, against weights of 4 GiB in one block; and
        # two of 670 MiB with 70 MiB live each, against weights of 1.59 GiB.
        for fixture, live_mib in (("verdict_fragmented_across_segments", 200),
                                  ("trap_adjacent_segments", 140)):
            with self.subTest(fixture=fixture):
                pins = answer(fixture)["failures"][0]["pins"]
                self.assertEqual(pins["live_bytes"] / MIB, live_mib)

    def test_redacting_hides_the_name_of_the_log(self):
        for asked in ("4.00", "9.00"):
            with tempfile.NamedTemporaryFile("w", suffix=".log", prefix="customer") as log:
                log.write(f"CUDA out of memory. Tried to allocate {asked} GiB. GPU 0 has a total "
                          "capacity of 23.69 GiB of which 2.39 GiB is free. \n")
                log.flush()
                for form in ((), ("--json",)):
                    with self.subTest(asked=asked, form=form):
                        done = run("fixtures/verdict_external.pickle", "--redact", "--log",
                                   log.name, *form)
                        self.assertNotIn("customer", done.stdout)

    def test_sound_evidence_is_not_doubted(self):
        for fixture in ("demo_oom", "verdict_capacity", "era_2_5_annotations", "era_2_15_host"):
            with self.subTest(fixture=fixture):
                self.assertEqual(answer(fixture)["trust"], [])

    def test_several_failures_are_judged_each(self):
        failures = answer("trap_several_failures")["failures"]
        got = [(each["verdict"]["kind"], each["request"]["size_bytes"] / MIB,
                each["state"]["device_free_bytes"] / MIB,
                each["verdict"]["short_by_bytes"] / MIB) for each in failures]
        self.assertEqual(got, [("capacity", 4096, 1211, 2885), ("capacity", 2048, 1211, 837),
                               ("capacity", 1536, 1211, 325)])

    def test_files_without_a_failure_have_none(self):
        for fixture in ("verdict_unknown", "trap_zero_segments", "trap_no_history",
                        "trap_two_devices", "era_2_15_host"):
            with self.subTest(fixture=fixture):
                self.assertEqual(answer(fixture)["failures"], [])

    def test_only_devices_in_use_are_listed(self):
        for fixture, expected in (("trap_two_devices", [0, 1]), ("era_2_15_host", [0]),
                                  ("trap_failure_on_second_device", [0, 1])):
            with self.subTest(fixture=fixture):
                self.assertEqual([each["device"] for each in answer(fixture)["devices"]], expected)

    def test_an_oversize_block_may_not_serve_a_smaller_request(self):
        ladder = answer("trap_oversize_segment", "--request", "250MiB")["failures"][0]["ladder"]
        self.assertIs(ladder[0]["fits"], False)

    def test_every_answer_has_the_shape_of_the_contract(self):
        questions = ((), ("--request", "1MiB", "--device", "0", "--at", "0"),
                     ("--request", "3GiB", "--device", "0", "--at", "peak"),
                     ("--request", "512MiB", "--device", "0", "--device-total", "24GiB",
                      "--device-free", "1GiB", "--limit", "0.5"))
        paths = (ROOT / "fixtures").glob("*.pickle*"), (ROOT / "fixtures/torch").glob("*.pickle*")
        for path in sorted(itertools.chain(*paths)):
            for options in questions:
                with self.subTest(fixture=path.name, options=options):
                    done = run("--json", str(path.relative_to(ROOT)), *options)
                    if "--request" in options and "no device" in done.stderr:
                        continue
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertEqual(problems(json.loads(done.stdout)), [])

    def test_several_files_give_one_line_each(self):
        names = ["demo_oom", "trap_two_devices", "era_1_12_list"]
        done = run("--json", *[f"fixtures/{name}.pickle" for name in names])
        lines = done.stdout.splitlines()
        self.assertEqual([json.loads(line)["input"]["path"] for line in lines],
                         [f"fixtures/{name}.pickle" for name in names])

    def test_one_bad_file_does_not_hide_the_others(self):
        done = run("--json", "fixtures/bad/text.pickle", "fixtures/demo_oom.pickle")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_exit_codes_follow_the_verdict_only_where_asked(self):
        for fixture, code in (("verdict_servable", 10), ("verdict_not_explained", 11),
                              ("verdict_releasable_capture", 12), ("verdict_stranded_pool", 14),
                              ("demo_oom", 15), ("verdict_scattered", 16),
                              ("verdict_capacity", 18), ("trap_no_history", 0)):
            with self.subTest(fixture=fixture):
                path = f"fixtures/{fixture}.pickle"
                self.assertEqual(run(path).returncode, 0)
                self.assertEqual(run("--exit-code", path).returncode, code)

    def test_every_bad_file_is_refused_in_one_line(self):
        for path in sorted((ROOT / "fixtures/bad").iterdir()):
            with self.subTest(file=path.name):
                done = run(f"fixtures/bad/{path.name}")
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(len(done.stderr.splitlines()), 1)
                self.assertTrue(done.stderr.startswith(f"fragscope: fixtures/bad/{path.name}: "))

    def test_facts_come_from_the_log_of_the_same_failure(self):
        line = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has "
                "a total capacity of 23.69 GiB of which 2.39 GiB is free. \n")
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            log.write("step 1\n" + line)
            log.flush()
            failure = answer("verdict_external", "--log", log.name)["failures"][0]
            self.assertEqual(failure["verdict"]["kind"], "external")
            self.assertIn("line 2", failure["state"]["device_total_source"])

    def test_a_log_of_another_failure_gives_nothing(self):
        line = ("CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of "
                "23.69 GiB of which 2.39 GiB is free. \n")
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            log.write(line)
            log.flush()
            got = answer("verdict_external", "--log", log.name)
            self.assertIsNone(got["failures"][0]["state"]["device_total_bytes"])
            self.assertIn("log-mismatch", [each["signal"] for each in got["trust"]])

    def test_redacting_hides_every_name_of_the_program(self):
        for fixture in ("demo_oom", "trap_two_devices"):
            for form in ((), ("--json",)):
                with self.subTest(fixture=fixture, form=form):
                    done = run(f"fixtures/{fixture}.pickle", "--redact", *form)
                    for name in ("model.py", "train.py", "forward", "training_step", "/srv", "job/",
                                 fixture):
                        self.assertNotIn(name, done.stdout)


if __name__ == "__main__":
    TOOL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
