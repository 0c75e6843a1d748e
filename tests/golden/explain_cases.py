# SPDX-License-Identifier: Apache-2.0
"""The golden tests of `explain`: which log, with which options, and what is to be read from it. What
each log shows, and the arithmetic behind its verdict, is in fixtures/logs/README.md."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ExplainCase:
    """One command on one log. The golden file is tests/golden/explain/<log>.<name>.txt, with a dot
    for the slash in the log's name."""
    log: str
    name: str = "text"
    options: tuple[str, ...] = ()
    stdin: str = ""

    @property
    def golden(self):
        return f"explain/{self.log.replace('/', '.')}.{self.name}.txt"

    @property
    def arguments(self):
        file = "-" if self.stdin else f"fixtures/logs/{self.log}.log"
        return ["explain", file, *self.options]


def _texts(folder, *logs):
    return [ExplainCase(f"{folder}/{log}") for log in logs]


def _jsons(folder, *logs):
    return [ExplainCase(f"{folder}/{log}", "json", ("--json",)) for log in logs]


_ERAS = _texts(
    "eras", "pytorch_1_0", "pytorch_1_4", "pytorch_1_8", "pytorch_1_11_search",
    "pytorch_2_1_neighbour", "pytorch_2_2", "pytorch_2_3_cut", "pytorch_2_5_pools", "pytorch_2_9",
    "beyond_an_exbibyte",
) + _jsons("eras", "pytorch_2_5_pools", "pytorch_2_12_rejected", "pytorch_2_13_attempts")

_BACKENDS = _texts(
    "backends", "hip", "xpu", "npu", "bare_errors", "other_frameworks", "wsl_paging",
    "contradiction", "same_process_in_container",
) + _jsons("backends", "mps", "cuda_malloc_async")

_PREFIXES = _texts(
    "prefixes", "ansi_colours", "python_logging", "ray_and_ranks", "interleaved_ranks",
    "docker_compose", "rust_debug_string", "wrapped_at_79", "wrapped_with_indent",
    "printed_again", "two_on_a_line", "prose_only",
) + _jsons("prefixes", "interleaved_ranks", "json_lines", "printed_again")

_SERVING = _texts(
    "serving", "vllm_ready", "vllm_profile_run", "sglang_capture", "tgi_warm_up",
    "llama_cpp_compute", "ollama_load", "tensorrt_llm", "comfyui",
) + _jsons("serving", "vllm_start_up_check", "llama_cpp_retry")

_TRAINING = _texts(
    "training", "transformers_step", "transformers_reading", "accelerate_prepare",
    "deepspeed_zero3", "torchrun_restart", "lightning_first_epoch", "axolotl_step",
    "megatron_placement", "torchtitan_checkpoint", "diffusers_denoising",
) + _jsons("training", "torchrun_restart")

_LISTING = ("--devices", "fixtures/logs/records/nvidia_smi_L.txt")

# As `fragscope devices --json` printed it on a machine of that kind, before the job of the log.
_BEFORE = ("--devices", "fixtures/logs/records/devices_before.json")

_RECORDS = [
    ExplainCase("records/two_processes", "record", ("--record",)),
    ExplainCase("records/two_processes", "record_devices", ("--record", *_LISTING)),
    ExplainCase("records/two_processes", "record_before", ("--record", *_BEFORE)),
    ExplainCase("records/two_processes", "before", _BEFORE),
    ExplainCase("records/two_processes", "json_before", ("--json", *_BEFORE)),
    ExplainCase("records/two_processes", "redact_before", ("--redact", *_BEFORE)),
    ExplainCase("records/bare_error", "record", ("--record",)),
    ExplainCase("eras/pytorch_1_11_search", "record", ("--record",)),
    ExplainCase("prefixes/prose_only", "record", ("--record",)),
]

_OPTIONS = [
    ExplainCase("eras/pytorch_2_2", "stdin", stdin="fixtures/logs/eras/pytorch_2_2.log"),
    ExplainCase("eras/pytorch_2_2", "color", ("--color", "always")),
    ExplainCase("records/two_processes", "redact", ("--redact",)),
    ExplainCase("training/transformers_reading", "weights", ("--weights", "13B", "--format", "bf16")),
    ExplainCase("training/transformers_reading", "weights_of_two",
                ("--weights", "13B", "--format", "bf16", "--gpus", "2")),
    ExplainCase("no_such_log"),
]

EXPLAIN_CASES = _ERAS + _BACKENDS + _PREFIXES + _SERVING + _TRAINING + _RECORDS + _OPTIONS
