#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the policy with PyTorch's allocator on virtual CUDA: on programs from seeds, and on what real
training asks of it.

    run_fidelity.py --torch 2.15 --build build/dev --cuda-include /usr/local/cuda/include -- --seeds 50

What follows -- goes to the driver (bin/fidelity --help). Where PyTorch is not installed
(scripts/torch_env.sh does it), the test is skipped.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "native"))
import build_native  # noqa: E402

SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
            "CUDA_VISIBLE_DEVICES")
SKIPPED = 77
# What the recorded training is replayed under.
CONFS = ("", "expandable_segments:True", "max_split_size_mb:64",
         "roundup_power2_divisions:4,garbage_collection_threshold:0.5")


def on_virtual_cuda(build, memory, *command):
    """Runs a command on one GPU with that much memory; its exit code."""
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    run = [sys.executable, str(ROOT / "virtual_cuda/run"), "--libraries", str(build / "virtual_cuda"),
           "--gpus", "1", "--memory", memory, "--", *map(str, command)]
    return subprocess.run(run, check=False, env={**environment, "PYTHONDONTWRITEBYTECODE": "1"}).returncode


def record_training(build, python, folder):
    """The programs of real training, one for each setting."""
    recorded = folder / "training"
    if on_virtual_cuda(build, "24GiB", python, HERE / "record_training.py", recorded) != 0:
        sys.exit("run_fidelity: the training could not be recorded")
    programs = []
    for number, conf in enumerate(CONFS):
        programs.append(folder / f"training_{number}")
        programs[-1].write_text(f"apply_conf {conf}\n" + recorded.read_text())
    return programs


def main():
    parser = argparse.ArgumentParser(description="Compares the policy with PyTorch's allocator.")
    parser.add_argument("--torch", required=True, help="version, as scripts/torch_env.sh knows it")
    parser.add_argument("--build", required=True, type=Path, help="folder of the build")
    parser.add_argument("--cuda-include", required=True, type=Path)
    parser.add_argument("driver", nargs="*", help="options of the driver")
    arguments = parser.parse_args()

    environment = build_native.torch_folder(arguments.torch)
    if environment is None:
        print(f"SKIPPED: no PyTorch; scripts/torch_env.sh {arguments.torch} makes it")
        sys.exit(SKIPPED)
    library = build_native.build(arguments.torch, arguments.cuda_include, arguments.build / "native")
    driver = [arguments.build / "bin/fidelity", "--native", library]
    if arguments.torch == "2.6":
        driver.append("--old")
    with tempfile.TemporaryDirectory() as folder:
        programs = record_training(arguments.build, environment / "bin/python", Path(folder))
        codes = [on_virtual_cuda(arguments.build, "2GiB", *driver, *programs),
                 on_virtual_cuda(arguments.build, "2GiB", *driver, *arguments.driver)]
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
