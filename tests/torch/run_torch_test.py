#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one of the tests in this folder on real PyTorch over virtual CUDA.

    run_torch_test.py --torch 2.15 --libraries build/dev/virtual_cuda [--conf SETTINGS] \
        [--tool build/dev/bin/fragscope] tests/torch/oom_test.py --memory 24GiB

What follows the test goes to virtual_cuda/run. Where PyTorch is not installed (scripts/torch_env.sh does
it), the test is skipped.
"""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77  # What ctest takes for a skipped test.
SETTINGS = "PYTORCH_CUDA_ALLOC_CONF"


def main():
    parser = argparse.ArgumentParser(description="Runs a test on real PyTorch over virtual CUDA.")
    parser.add_argument("--torch", required=True, help="version, as scripts/torch_env.sh knows it")
    parser.add_argument("--libraries", required=True, type=Path)
    parser.add_argument("--conf", help=f"what {SETTINGS} says")
    parser.add_argument("--tool", type=Path, help="fragscope, for tests that run it")
    parser.add_argument("test", type=Path)
    arguments, options = parser.parse_known_args()

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "fragscope" / f"torch-{arguments.torch}"
    if not (folder / "complete").exists():
        print(f"SKIPPED: no PyTorch in {folder}; scripts/torch_env.sh {arguments.torch} makes it")
        sys.exit(SKIPPED)

    os.environ.pop(SETTINGS, None)
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    os.environ.pop("PYTORCH_ALLOC_CONF", None)
    if arguments.conf:
        os.environ[SETTINGS] = arguments.conf
    if arguments.tool:
        os.environ["FRAGSCOPE"] = str(arguments.tool.resolve())
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, str(ROOT / "virtual_cuda" / "run"),
               "--libraries", str(arguments.libraries), *options, "--",
               str(folder / "bin" / "python"), str(arguments.test)]
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
