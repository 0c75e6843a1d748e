#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the library behind which the tests see PyTorch's own allocator, against an installed PyTorch.

    build_native.py --torch 2.15 --cuda-include /usr/local/cuda/include --output build/dev/native

Prints the library's path; exit code 77 where PyTorch is not installed (scripts/torch_env.sh does it).
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCE = Path(__file__).resolve().parent / "native_allocator.cpp"
SKIPPED = 77
# PyTorch 2.6 from PyPI is built for the C++ library's old strings.
OLD_STRINGS = ("2.6",)


def torch_folder(version):
    """The folder of the environment with this PyTorch, or none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "fragscope" / f"torch-{version}"
    return folder if (folder / "complete").exists() else None


def command(version, torch, cuda_include, library):
    includes = (torch / "include", torch / "include/torch/csrc/api/include", cuda_include)
    return [os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-fPIC", "-shared", "-w", f"-I{ROOT}",
            *[f"-isystem{folder}" for folder in includes],
            f"-D_GLIBCXX_USE_CXX11_ABI={int(version not in OLD_STRINGS)}",
            str(SOURCE), "-o", str(library), f"-L{torch / 'lib'}", f"-Wl,-rpath,{torch / 'lib'}",
            "-Wl,--no-as-needed", "-ltorch_cuda", "-ltorch_cpu", "-lc10_cuda", "-lc10",
            "-Wl,--allow-shlib-undefined"]


def build(version, cuda_include, output):
    """The library for an installed version, made if it is missing or older than its sources."""
    torch = next(torch_folder(version).glob("lib/python3*/site-packages/torch"))
    output.mkdir(parents=True, exist_ok=True)
    library = output / f"libnative_allocator_{version}.so"
    inputs = [SOURCE, SOURCE.with_suffix(".hpp"), Path(__file__), torch_folder(version) / "complete"]
    if not library.exists() or library.stat().st_mtime < max(p.stat().st_mtime for p in inputs):
        made = library.with_suffix(f".{os.getpid()}")
        subprocess.run(command(version, torch, cuda_include, made), check=True)
        made.rename(library)
    return library


def main():
    parser = argparse.ArgumentParser(description="Builds the library around PyTorch's allocator.")
    parser.add_argument("--torch", required=True, help="version, as scripts/torch_env.sh knows it")
    parser.add_argument("--cuda-include", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path, help="folder for the library")
    arguments = parser.parse_args()
    if torch_folder(arguments.torch) is None:
        print(f"SKIPPED: no PyTorch {arguments.torch}; scripts/torch_env.sh {arguments.torch} makes it",
              file=sys.stderr)
        sys.exit(SKIPPED)
    print(build(arguments.torch, arguments.cuda_include, arguments.output))


if __name__ == "__main__":
    main()
