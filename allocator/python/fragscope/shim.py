# SPDX-License-Identifier: Apache-2.0
"""Builds what sits between PyTorch and the allocator, for the PyTorch that is installed.

PyTorch promises no stable interface for allocators: a library is good for one version, and is compiled
against that version's headers. That takes a C++ compiler, and the headers of the CUDA runtime, which lie
beside PyTorch or in a toolkit.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

LIBRARY = "libfragscope_torch.so"


class CannotBuild(Exception):
    """Why, in one line; `details` has what the compiler said."""

    def __init__(self, reason, details=""):
        super().__init__(reason)
        self.details = details


def cuda_include(torch_folder):
    """The folder with the CUDA runtime's headers, for PyTorch in this folder."""
    beside = torch_folder.parent / "nvidia"
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    nvcc = shutil.which("nvcc")
    if nvcc:
        homes.insert(2, Path(nvcc).resolve().parents[1])
    candidates = [*sorted(beside.glob("cu[0-9]*/include"), reverse=True),
                  beside / "cuda_runtime" / "include",
                  *(Path(home) / "include" for home in homes if home), Path("/usr/include")]
    for folder in candidates:
        if (folder / "cuda_runtime_api.h").is_file():
            return folder
    raise CannotBuild("the headers of the CUDA runtime (cuda_runtime_api.h) are in none of "
                      + ", ".join(map(str, candidates)))


def sources(source_root):
    """What is compiled; `source_root` holds the folder allocator/."""
    return sorted((Path(source_root) / "allocator" / "torch").glob("*.cpp"))


def compile_command(source_root, library):
    """The call of the compiler for the PyTorch that runs here."""
    import torch  # Only whoever builds needs it.

    torch_folder = Path(torch.__file__).resolve().parent
    compiler = os.environ.get("CXX") or "g++"
    include = torch_folder / "include"
    return [
        *compiler.split(), "-std=c++20", "-O2", "-fPIC", "-shared",
        # No version script: PyTorch's inline functions must find its own objects, not copies of ours.
        "-fvisibility=hidden",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f'-DFRAGSCOPE_TORCH_VERSION="{torch.__version__}"',
        f"-I{source_root}",
        "-isystem", str(include),
        "-isystem", str(include / "torch" / "csrc" / "api" / "include"),
        "-isystem", str(cuda_include(torch_folder)),
        *map(str, sources(source_root)),
        f"-L{torch_folder / 'lib'}", "-lc10_cuda", "-lc10", "-ldl",
        "-o", str(library),
    ]


def build(source_root, folder):
    """Compiles into the folder, whole or not at all; gives the library's path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / LIBRARY
    unfinished = folder / f"{LIBRARY}.{os.getpid()}"
    command = compile_command(source_root, unfinished)
    try:
        # The job's preloaded libraries are not the compiler's business.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError as error:
        raise CannotBuild(f"the compiler {command[0]} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        unfinished.unlink(missing_ok=True)
        raise CannotBuild(f"{command[0]} failed", done.stderr)
    os.replace(unfinished, library)
    return library


if __name__ == "__main__":
    try:
        print(build(*sys.argv[1:3]))
    except CannotBuild as failure:
        sys.exit(f"{failure}\n{failure.details}".strip())
