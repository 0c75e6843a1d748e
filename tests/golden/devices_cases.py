# SPDX-License-Identifier: Apache-2.0
"""The golden tests of `devices`: on which machine of virtual CUDA, and what is to be read from it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DevicesCase:
    """The command on one machine. The golden file is tests/golden/devices/<name>.txt."""
    name: str
    machine: tuple[str, ...]  # Options of virtual_cuda/run.
    environment: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    stdin: str = ""

    @property
    def golden(self):
        return f"devices/{self.name}.txt"

    @property
    def arguments(self):
        return ["devices", *self.options]


# Above every id that Linux gives, so that nobody on the machine of the test has it.
_PROCESSES = ("--process", "0:4200077:2GiB:python train.py", "--process", "0:4200078:512MiB:sglang",
              "--process", "1:4200079:70GiB:vllm")
_TWO = ("--gpus", "2", "--preset", "a100-40g", "--preset", "h100-80g")

DEVICES_CASES = [
    DevicesCase("two", (*_TWO, *_PROCESSES)),
    DevicesCase("json", (*_TWO, *_PROCESSES), options=("--json",)),
    DevicesCase("redact", (*_TWO, *_PROCESSES), options=("--redact",)),
    DevicesCase("other_order", _TWO, (("CUDA_VISIBLE_DEVICES", "1,0"),)),
    DevicesCase("by_uuid", _TWO,
                (("CUDA_VISIBLE_DEVICES", "GPU-f7a65c0e-0000-8000-8000-000000000001"),)),
    DevicesCase("stops", _TWO, (("CUDA_VISIBLE_DEVICES", "1,7,0"),)),
    DevicesCase("hidden", _TWO, (("CUDA_VISIBLE_DEVICES", ""),)),
    DevicesCase("no_permission", ("--gpus", "1", "--nvml", "RunningProcesses:4")),
    DevicesCase("nothing_supported",
                ("--gpus", "1", "--nvml", "RunningProcesses:3", "--nvml", "MemoryInfo:3")),
    DevicesCase("nothing_supported_context",
                ("--gpus", "1", "--nvml", "RunningProcesses:3", "--nvml", "MemoryInfo:3"),
                options=("--context",)),
    DevicesCase("driver_not_loaded", ("--gpus", "1", "--nvml", "nvmlInit:9")),
    DevicesCase("driver_not_loaded_context", ("--gpus", "1", "--nvml", "nvmlInit:9"),
                options=("--context",)),
    DevicesCase("no_gpu", ("--gpus", "0",)),
]
