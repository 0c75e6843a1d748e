# SPDX-License-Identifier: Apache-2.0
"""Builds what sits between PyTorch and the allocator, for the PyTorch that is installed, and keeps it.

PyTorch promises no stable interface for allocators: a library is good for one version, and is compiled
against that version's headers. That takes a C++ compiler, and the headers of the CUDA runtime, which lie
beside PyTorch or in a toolkit. It is done at installation where PyTorch is there already, else at the first
use, into a cache.
"""

import ctypes
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

LIBRARY = "libfragscope_torch.so"
PACKAGE = Path(__file__).resolve().parent
SOURCES = PACKAGE / "source"  # As in the repository, from its root.
PREBUILT = PACKAGE / "prebuilt"
_RETRY_SECONDS = 60
_PATIENCE_SECONDS = 300  # With a compiler, or with another process that compiles.


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
    return sorted((Path(source_root) / "allocator" / "torch").rglob("*.cpp"))


def _compiler():
    return (os.environ.get("CXX") or "").split() or ["g++"]


def compile_command(source_root, library):
    """The call of the compiler for the PyTorch that runs here."""
    import torch  # Only whoever builds needs it.

    torch_folder = Path(torch.__file__).resolve().parent
    include = torch_folder / "include"
    return [
        *_compiler(), "-std=c++20", "-O2", "-fPIC", "-shared",
        # No version script: PyTorch's inline functions must find its own objects, not copies of ours.
        "-fvisibility=hidden",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f'-DFRAGSCOPE_TORCH_VERSION="{torch.__version__}"',
        f"-I{source_root}",
        "-isystem", str(include),
        "-isystem", str(include / "torch" / "csrc" / "api" / "include"),
        "-isystem", str(cuda_include(torch_folder)),
        *map(str, sources(source_root)),
        f"-L{torch_folder / 'lib'}", "-lc10_cuda", "-lc10", "-ltorch_cpu", "-ldl",
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
        done = subprocess.run(command, capture_output=True, check=False, env=environment, text=True,
                              errors="replace", stdin=subprocess.DEVNULL, timeout=_PATIENCE_SECONDS)
    except OSError as error:
        raise CannotBuild(f"the compiler {command[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        unfinished.unlink(missing_ok=True)
        raise CannotBuild(f"{command[0]} did not end in {_PATIENCE_SECONDS} s") from error
    if done.returncode != 0:
        unfinished.unlink(missing_ok=True)
        raise CannotBuild(f"{command[0]} failed", done.stderr)
    os.replace(unfinished, library)
    return library


def key(torch):
    """What a library is good for, and made from: another PyTorch, another Python or another version of ours
    has another key."""
    from .version import VERSION

    digest = hashlib.sha256(torch.version.git_version.encode())
    for file in sorted([Path(__file__), *SOURCES.rglob("*.[ch]pp"), *SOURCES.rglob("*.h")]):
        digest.update(file.read_bytes())
    return "-".join((VERSION, "torch", torch.__version__, sys.implementation.cache_tag,
                     f"abi{int(torch.compiled_with_cxx11_abi())}", platform.machine(),
                     digest.hexdigest()[:16]))


def cache_folder():
    """Of this user. What lies there is loaded into jobs: nobody else may write to it."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "fragscope" / "torch"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except (OSError, RuntimeError) as error:
        raise CannotBuild(f"no place to keep what is compiled: {error}; set XDG_CACHE_HOME") from error
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise CannotBuild(f"others may write to {folder}; make it yours alone or set XDG_CACHE_HOME")
    return folder


def _compiled(torch, say):
    """The library out of the cache, made if it is not there; one process compiles, others wait for it."""
    folder = cache_folder() / key(torch)
    library = folder / LIBRARY
    if library.exists():
        return library
    try:
        folder.mkdir(exist_ok=True)
        lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            _take(lock)
            if not library.exists():
                _compile(torch, folder, say)
        finally:
            os.close(lock)
    except OSError as error:
        raise CannotBuild(f"what is compiled cannot be kept: {error}; set XDG_CACHE_HOME") from error
    return library


def _take(lock):
    """It ends with the process that has it, however that ends; but that one may be stopped, or its compiler
    hang, and a job does not wait for that."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except (BlockingIOError, PermissionError) as error:
            if time.monotonic() >= end:
                raise CannotBuild("another process compiles, and does not end") from error
            time.sleep(0.1)


def _compile(torch, folder, say):
    """Into the folder, unless that has just failed: of many ranks one is told so slowly enough."""
    note = folder / "failed"
    if note.exists() and time.time() - note.stat().st_mtime < _RETRY_SECONDS:
        raise CannotBuild(note.read_text(errors="replace"))
    compiler = _compiler()[0]
    if shutil.which(compiler) is None:
        raise CannotBuild(f"there is no C++ compiler {compiler}")
    say(f"compiling for PyTorch {torch.__version__}, once; it takes about 10 s")
    try:
        build(SOURCES, folder)
    except CannotBuild as failure:
        first = next((line for line in failure.details.splitlines() if "error" in line), "")
        reason = f"{failure}: {first.strip()}" if first else str(failure)
        note.write_text(reason, errors="replace")
        raise CannotBuild(reason, failure.details) from failure
    note.unlink(missing_ok=True)


def load(torch, say):
    """The library for this PyTorch, with its functions declared. Raises CannotBuild."""
    library = PREBUILT / key(torch) / LIBRARY
    if not library.exists():
        library = _compiled(torch, say)
    try:
        part = ctypes.CDLL(str(library))
        part.fragscope_torch_version.restype = ctypes.c_char_p
        part.fragscope_torch_parse_settings.restype = ctypes.c_char_p
        part.fragscope_torch_install.restype = ctypes.c_char_p
        part.fragscope_torch_install.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        part.fragscope_torch_flush.restype = ctypes.c_char_p
        made_for = part.fragscope_torch_version().decode()
    except (OSError, AttributeError) as error:
        raise CannotBuild(f"{library} does not fit this PyTorch: {error}; remove it") from error
    if made_for != torch.__version__:
        raise CannotBuild(f"{library} is made for PyTorch {made_for}, this is {torch.__version__}; remove it")
    return part


def prebuild(folder=PREBUILT):
    """For the installation, where PyTorch is there already: what `load` would compile later. Gives what
    came of it, as a line."""
    try:
        import torch
    except Exception as error:  # It may be broken in any way: not our affair.
        return f"PyTorch cannot be imported here ({error}): it is compiled for at the first use"
    try:
        if torch.version.cuda is None:
            return "PyTorch has no CUDA here: nothing compiled"
        return f"compiled for PyTorch {torch.__version__}: {build(SOURCES, Path(folder) / key(torch))}"
    except CannotBuild as failure:
        return f"not compiled for PyTorch, the first use will try again: {failure}\n{failure.details}"


if __name__ == "__main__":
    try:
        print(build(*sys.argv[1:3]))
    except CannotBuild as failure:
        sys.exit(f"{failure}\n{failure.details}".strip())
