# SPDX-License-Identifier: Apache-2.0
"""The golden tests of `stages`, `growth` and `diff`: how memory goes, over a program's work or between two
files."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CourseCase:
    """One command. The golden file is tests/golden/course/<name>.txt; files are named from fixtures/ on."""
    name: str
    command: str
    files: tuple[str, ...]
    options: tuple[str, ...] = ()
    stdin: str = ""

    @property
    def golden(self):
        return f"course/{self.name}.txt"

    @property
    def arguments(self):
        return [self.command, *(f"fixtures/{file}" for file in self.files), *self.options]


_START = "traces/server_start.fst"
_LEVEL = "traces/server_level.fst"
_LEAK = "traces/server_leak.fst"
_CACHE = "traces/server_cache.fst"
_UNMARKED = "traces/server_unmarked.fst"
_CLEAN = "traces/recorded_run_clean.fst"
_KILLED = "traces/recorded_run_killed_came_round.fst"

_STAGES = [
    CourseCase("stages.start", "stages", (_START,), ("--exit-code",)),
    CourseCase("stages.start_json", "stages", (_START,), ("--json",)),
    CourseCase("stages.start_redact", "stages", (_START,), ("--redact",)),
    CourseCase("stages.points", "stages", (_LEVEL,)),
    CourseCase("stages.none", "stages", (_CLEAN,), ("--exit-code",)),
    CourseCase("stages.came_round", "stages", (_KILLED,)),
    CourseCase("stages.other_device", "stages", (_START,), ("--device", "1")),
    CourseCase("stages.annotations", "stages", ("era_2_5_annotations.pickle",)),
    CourseCase("stages.annotations_json", "stages", ("era_2_5_annotations.pickle",), ("--json",)),
    CourseCase("stages.snapshot", "stages", ("torch/conversion.pickle.zst",)),
    CourseCase("stages.bound", "stages", ("trap_ring_cut_size_is_a_bound.pickle",)),
    CourseCase("stages.two_devices", "stages", ("trap_two_devices.pickle",)),
    CourseCase("stages.one_of_two_devices", "stages", ("trap_two_devices.pickle",), ("--device", "1")),
    CourseCase("stages.no_history", "stages", ("trap_no_history.pickle",)),
    CourseCase("stages.empty", "stages", ("bad/empty.pickle",)),
    CourseCase("stages.log", "stages", ("logs/eras/pytorch_2_9.log",)),
]

_TIMELINE = [
    CourseCase("timeline.fragmented", "timeline", ("torch/fragmented.pickle.zst",), ("--exit-code",)),
    CourseCase("timeline.fragmented_log", "timeline", ("torch/fragmented.pickle.zst",),
               ("--log", "fixtures/torch/fragmented.log")),
    CourseCase("timeline.expandable", "timeline", ("torch/fragmented_expandable.pickle.zst",)),
    CourseCase("timeline.capacity", "timeline", ("torch/full_card.pickle.zst",)),
    CourseCase("timeline.releasable", "timeline", ("torch/releasable_in_capture.pickle.zst",), ("--exit-code",)),
    CourseCase("timeline.pending", "timeline", ("torch/pending.pickle.zst",)),
    CourseCase("timeline.never", "timeline", ("torch/impossible.pickle.zst",), ("--exit-code",)),
    CourseCase("timeline.demo", "timeline", ("demo_oom.pickle",)),
    CourseCase("timeline.json", "timeline", ("demo_oom.pickle",), ("--json", "--columns", "6")),
    CourseCase("timeline.redact", "timeline", ("demo_oom.pickle",), ("--redact", "--columns", "20")),
    CourseCase("timeline.request", "timeline", ("demo_oom.pickle",), ("--request", "1.2GiB")),
    CourseCase("timeline.limit_fraction", "timeline", ("demo_oom.pickle",),
               ("--request", "1.2GiB", "--limit", "0.5")),
    CourseCase("timeline.small_request", "timeline", ("demo_oom.pickle",), ("--request", "4KiB", "--columns", "30")),
    CourseCase("timeline.other_stream", "timeline", ("torch/pending.pickle.zst",),
               ("--request", "64MiB", "--stream", "7")),
    CourseCase("timeline.no_failure", "timeline", ("torch/cached.pickle.zst",)),
    CourseCase("timeline.no_failure_free", "timeline", ("torch/cached.pickle.zst",),
               ("--request", "2GiB", "--device-free", "1GiB")),
    CourseCase("timeline.trace", "timeline", (_CLEAN,), ("--request", "100MiB")),
    CourseCase("timeline.came_round", "timeline", (_KILLED,), ("--request", "10MiB", "--columns", "40")),
    CourseCase("timeline.bound", "timeline", ("trap_ring_cut_size_is_a_bound.pickle",)),
    CourseCase("timeline.two_devices", "timeline", ("trap_two_devices.pickle",)),
    CourseCase("timeline.no_history", "timeline", ("trap_no_history.pickle",)),
    CourseCase("timeline.no_such_size", "timeline", ("demo_oom.pickle",), ("--request", "1.2GB")),
    CourseCase("timeline.sizes", "timeline", ("demo_oom.pickle",), ("--sizes", "64MiB,1GiB", "--columns", "30")),
    CourseCase("timeline.sizes_of_nothing", "timeline", ("torch/cached.pickle.zst",), ("--sizes", "64MiB")),
    CourseCase("timeline.sizes_of_two_classes", "timeline", ("demo_oom.pickle",), ("--sizes", "64MiB,1MiB")),
    CourseCase("timeline.nearly_an_exbibyte", "timeline", ("demo_oom.pickle",),
               ("--request", "1152921504606846975", "--columns", "20")),
    CourseCase("timeline.less_than_a_segment", "timeline", ("trap_small_request.pickle",)),
    CourseCase("timeline.no_columns", "timeline", ("demo_oom.pickle",), ("--columns", "0")),
]

_GROWTH = [
    CourseCase("growth.level", "growth", (_LEVEL,), ("--exit-code",)),
    CourseCase("growth.leak", "growth", (_LEAK,), ("--exit-code",)),
    CourseCase("growth.leak_json", "growth", (_LEAK,), ("--json",)),
    CourseCase("growth.leak_redact", "growth", (_LEAK,), ("--redact",)),
    CourseCase("growth.no_such_mark", "growth", (_LEAK,), ("--marks", "batch 1")),
    CourseCase("growth.cache", "growth", (_CACHE,), ("--exit-code",)),
    CourseCase("growth.unmarked", "growth", (_UNMARKED,), ("--exit-code",)),
    CourseCase("growth.period", "growth", (_UNMARKED,), ("--period", "auto", "--exit-code")),
    CourseCase("growth.no_period", "growth", (_CLEAN,), ("--period", "auto")),
    CourseCase("growth.snapshot_period", "growth", ("torch/growing_cache.pickle.zst",), ("--period", "auto")),
    CourseCase("growth.start", "growth", (_START,)),
    CourseCase("growth.came_round", "growth", (_KILLED,)),
    CourseCase("growth.control", "growth", (_LEVEL, _CACHE, _LEVEL)),
    CourseCase("growth.no_control", "growth", (_LEVEL, _LEVEL, _CACHE)),
    CourseCase("growth.two_files", "growth", (_LEVEL, _LEAK)),
    CourseCase("growth.one_of_two_is_text", "growth", (_LEVEL, "bad/text.pickle")),
]

_DIFF = [
    CourseCase("diff.other_program", "diff", (_LEVEL, _CACHE), ("--exit-code",)),
    CourseCase("diff.other_program_json", "diff", (_LEVEL, _CACHE), ("--json",)),
    CourseCase("diff.same", "diff", (_LEAK, _LEAK), ("--exit-code",)),
    CourseCase("diff.redact", "diff", (_LEAK, _UNMARKED), ("--redact", "--exit-code")),
    CourseCase("diff.other_settings", "diff", ("torch/fragmented.pickle.zst", "torch/fragmented_expandable.pickle.zst"),
               ("--exit-code",)),
    CourseCase("diff.at_the_end", "diff", (_LEVEL, _LEAK), ("--at", "end")),
    CourseCase("diff.trace_and_snapshot", "diff", (_START, "torch/conversion.pickle.zst")),
    CourseCase("diff.states", "diff", ("era_1_12_list.pickle", "trap_no_history.pickle"), ("--exit-code",)),
    CourseCase("diff.came_round", "diff", (_CLEAN, _KILLED), ("--exit-code",)),
    CourseCase("diff.no_failure", "diff", (_LEVEL, _LEAK), ("--at", "oom")),
    CourseCase("diff.two_devices", "diff", ("trap_two_devices.pickle", _LEAK)),
    CourseCase("diff.one_is_a_log", "diff", (_LEAK, "logs/eras/pytorch_2_9.log")),
]

COURSE_CASES = _STAGES + _TIMELINE + _GROWTH + _DIFF
