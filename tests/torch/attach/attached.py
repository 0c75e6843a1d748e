# SPDX-License-Identifier: Apache-2.0
"""The library between PyTorch and ours, built for the PyTorch that runs here, and put in."""

import ctypes
import hashlib
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "allocator" / "python"))

from fragscope import shim  # noqa: E402  pylint: disable=wrong-import-position


def built_library():
    """Its path; built once for each version of PyTorch and of the sources."""
    import torch

    digest = hashlib.sha256(torch.__version__.encode())
    headers = [*ROOT.rglob("allocator/torch/**/*.?pp"), *ROOT.glob("allocator/engine/*.hpp")]
    for path in sorted([Path(shim.__file__), *headers]):
        digest.update(path.read_bytes())
    folder = Path(os.environ["FRAGSCOPE_SHIMS"]) / digest.hexdigest()[:16]
    library = folder / shim.LIBRARY
    return library if library.exists() else shim.build(ROOT, folder)


def load(path=None):
    library = ctypes.CDLL(str(path or built_library()))
    for name in ("torch_version", "torch_parse_settings", "torch_install"):
        getattr(library, f"fragscope_{name}").restype = ctypes.c_char_p
    return library


def install(way="attach"):
    """Puts it in; gives libfragscope_alloc.so."""
    ours = os.environ["FRAGSCOPE_ALLOC"]
    problem = load().fragscope_torch_install(ours.encode(), way.encode())
    assert problem is None, problem
    library = ctypes.CDLL(ours)
    library.fragscope_ring_path.restype = ctypes.c_char_p
    return library
