# SPDX-License-Identifier: Apache-2.0
"""The golden tests: which command on which fixtures, and the name of the file that holds what it
must print. The expectation of each fixture is worked out in fixtures/README.md."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One command. The golden file is tests/golden/<fixture>.<name>.txt."""
    fixture: str
    name: str
    options: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    stdin: str = ""

    @property
    def golden(self):
        return f"{self.fixture}.{self.name}.txt"

    @property
    def arguments(self):
        return ["analyze", *(self.files or (f"fixtures/{self.fixture}.pickle",)), *self.options]


def _plain(*fixtures):
    return [Case(fixture, "analyze") for fixture in fixtures]


_VERDICTS = _plain(
    "demo_oom", "verdict_capacity", "verdict_capacity_rounding", "verdict_external",
    "verdict_impossible", "verdict_limit_runtime", "verdict_limit_settings", "verdict_not_explained", "verdict_releasable_capture",
    "verdict_releasable_mempool_thread", "verdict_scattered", "verdict_servable",
    "verdict_stranded_class", "verdict_stranded_class_full_card", "verdict_stranded_expandable",
    "verdict_stranded_oversize", "verdict_stranded_pending", "verdict_stranded_pool",
    "verdict_stranded_stream", "verdict_unknown")

_TRAPS = _plain(
    "era_1_12_list", "era_2_5_annotations", "era_2_15_host",
    "trap_ascend_rounding", "trap_bytes_after_stop",
    "trap_clock_backwards", "trap_driver_keeps_last_megabytes", "trap_dump_much_later",
    "trap_expandable_middle_gap", "trap_failure_on_second_device", "trap_graph_temporaries",
    "trap_no_history", "trap_oom_then_retry", "trap_pending_at_failure",
    "trap_ring_cut_inside_a_free", "trap_ring_cut_size_from_neighbour",
    "trap_ring_cut_size_is_a_bound", "trap_roundup_divisions",
    "trap_segment_vanished_pool_id", "trap_several_failures", "trap_skip_actions",
    "trap_small_request", "trap_stream_handles_64bit", "trap_two_devices",
    "trap_unknown_actions", "trap_unmatched_frees", "trap_zero_segments")

# Facts that the file lacks, given by hand; the verdicts change as fixtures/README.md says.
_FACTS = [
    Case("verdict_external", "total", ("--device-total", "25437405184")),
    Case("verdict_impossible", "total", ("--device-total", "25437405184")),
    Case("verdict_limit_runtime", "limit", ("--limit", "10574364672")),
    Case("verdict_limit_settings", "total", ("--device-total", "85520809984")),
    Case("verdict_stranded_oversize", "pool", ("--pool", "1,0")),
    Case("verdict_stranded_pending", "pool", ("--pool", "1,0")),
]

_QUESTIONS = [
    Case("verdict_unknown", "request", ("--request", "8GiB")),
    Case("verdict_unknown", "request_free", ("--request", "8GiB", "--device-free", "10GiB")),
    Case("trap_no_history", "request", ("--request", "320MiB")),
    Case("trap_oversize_segment", "request_250", ("--request", "250MiB")),
    Case("trap_oversize_segment", "request_290", ("--request", "290MiB")),
    Case("demo_oom", "request_at_oom", ("--request", "512MiB", "--at", "oom")),
    Case("demo_oom", "request_at_peak", ("--request", "1176MiB", "--at", "peak")),
    Case("demo_oom", "request_at_event", ("--request", "1GiB", "--at", "0")),
    Case("trap_several_failures", "request_oom_1", ("--request", "1GiB", "--at", "oom:1")),
    Case("trap_two_devices", "request_device",
         ("--request", "256MiB", "--device", "1", "--at", "end")),
    Case("verdict_stranded_stream", "request_stream",
         ("--request", "1536MiB", "--at", "oom", "--stream", "23")),
    Case("verdict_stranded_pool", "request_pool",
         ("--request", "2560MiB", "--at", "oom", "--pool", "1,0")),
]

_OUTPUT = [
    Case("demo_oom", "redact", ("--redact",)),
    Case("demo_oom", "color", ("--color", "always")),
    Case("verdict_stranded_pool", "json", ("--json",)),
    Case("trap_two_devices", "device_1", ("--device", "1")),
    Case("verdict_capacity", "exit_code", ("--exit-code",)),
    Case("verdict_stranded_stream", "exit_code", ("--exit-code",)),
    Case("trap_no_history", "exit_code", ("--exit-code",)),
    Case("compressed", "two_files", (),
         ("fixtures/compressed_2_6.pickle.gz", "fixtures/compressed_2_6.pickle.zst")),
    Case("compressed", "stdin", (), ("-",), "fixtures/compressed_2_6.pickle.zst"),
]


def _torch(recording, name, *options):
    """A recording of real PyTorch: tests/golden/torch/<recording>.<name>.txt."""
    return Case(f"torch/{recording}", name, options, (f"fixtures/torch/{recording}.pickle.zst",))


def _with_log(recording, *options):
    return _torch(recording, "log", *options, "--log", f"fixtures/torch/{recording}.log")


_TORCH = [_torch(recording, "analyze") for recording in (
    "fragmented", "fragmented_expandable", "scattered", "spurious", "stranded_by_stream",
    "stranded_by_class", "stranded_by_mempool", "stranded_by_graph", "stranded_by_pending",
    "stranded_by_oversize", "stranded_by_expandable", "cached", "releasable_in_capture", "pending",
    "pending_in_a_segment", "conversion", "conversion_fails", "growing_cache", "batch_finder",
    "full_card", "rounding", "limit", "limit_in_settings", "refused_by_the_driver",
    "external_process", "external_runtime", "impossible")]

_TORCH_LOGS = [_with_log(recording) for recording in (
    "fragmented", "limit", "limit_in_settings", "external_process", "external_runtime", "impossible",
    "batch_finder")]

_TORCH_QUESTIONS = [
    _torch("cached", "request", "--request", "14GiB"),
    _torch("cached", "request_free", "--request", "14GiB", "--device-free", "9358MiB"),
    _torch("pending", "request_free", "--request", "14GiB", "--device-free", "11406MiB"),
    _torch("pending_in_a_segment", "request_free",
           "--request", "2GiB", "--device-free", "142MiB"),
    _torch("conversion", "request_free", "--request", "16GiB", "--device-free", "4496MiB"),
    _torch("fragmented_expandable", "request", "--request", "2008MiB"),
]

_TORCH_JSON = [
    _torch("fragmented", "json", "--json"),
    _torch("stranded_by_graph", "json", "--json"),
    _torch("releasable_in_capture", "json", "--json"),
    _torch("pending", "json", "--json"),
    _torch("limit", "json", "--log", "fixtures/torch/limit.log", "--json"),
    _torch("external_runtime", "json", "--log", "fixtures/torch/external_runtime.log", "--json"),
]


def _refused(name, file, *options):
    return Case("refused", name, options, (file,))


# One line on standard error, nothing on standard output, exit code 1.
_REFUSALS = [
    _refused("stack_global", "fixtures/bad/stack_global.pickle"),
    _refused("cut", "fixtures/bad/cut_inside_opcode.pickle"),
    _refused("text", "fixtures/bad/text.pickle"),
    _refused("empty", "fixtures/bad/empty.pickle"),
    _refused("not_tiled", "fixtures/bad/blocks_short_of_segment.pickle"),
    _refused("overlap", "fixtures/bad/segments_overlap.pickle"),
    _refused("bomb", "fixtures/bad/bomb_of_zeros.pickle.zst"),
    _refused("cut_gzip", "fixtures/bad/cut.pickle.gz"),
    _refused("missing_file", "fixtures/there_is_no_such_file.pickle"),
    _refused("directory", "fixtures"),
    _refused("no_such_device", "fixtures/trap_two_devices.pickle", "--device", "7"),
    _refused("which_device", "fixtures/trap_two_devices.pickle", "--request", "1MiB"),
    _refused("no_such_pool", "fixtures/demo_oom.pickle", "--request", "1MiB", "--pool", "9,9"),
    _refused("no_such_failure", "fixtures/demo_oom.pickle", "--request", "1MiB", "--at", "oom:5"),
    _refused("no_such_event", "fixtures/demo_oom.pickle", "--request", "1MiB", "--at", "99999"),
    _refused("no_such_moment", "fixtures/demo_oom.pickle", "--request", "1MiB", "--at", "noon"),
    _refused("decimal_unit", "fixtures/demo_oom.pickle", "--request", "1GB"),
    _refused("request_of_nothing", "fixtures/demo_oom.pickle", "--request", "0"),
    _refused("at_without_request", "fixtures/demo_oom.pickle", "--at", "peak"),
    _refused("unknown_option", "fixtures/demo_oom.pickle", "--no-such-option"),
    Case("refused", "one_of_two", ("--exit-code",),
         ("fixtures/bad/text.pickle", "fixtures/trap_no_history.pickle")),
]

CASES = (_VERDICTS + _TRAPS + _FACTS + _QUESTIONS + _OUTPUT + _REFUSALS + _TORCH + _TORCH_LOGS +
         _TORCH_QUESTIONS + _TORCH_JSON)
