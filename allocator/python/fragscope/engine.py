# SPDX-License-Identifier: Apache-2.0
"""libfragscope_alloc.so, which decides and records, as far as Python speaks to it. Loaded once, by the
process that records, and never unloaded."""

import ctypes
import os
from pathlib import Path

from . import earlier_marks

LIBRARY = "libfragscope_alloc.so"

_library = None


class EngineError(Exception):
    """The library cannot be loaded, or refuses a setting; one line."""


def path():
    return Path(__file__).resolve().parent / "lib" / LIBRARY


def is_loaded():
    return _library is not None


def load():
    """The library, for this process; raises EngineError."""
    global _library
    if _library is None:
        try:
            library = ctypes.CDLL(str(path()))
        except OSError as error:
            raise EngineError(f"{path()} cannot be loaded: {error}") from error
        library.fragscope_ring_path.restype = ctypes.c_char_p
        library.fragscope_ring_path.argtypes = [ctypes.c_int]
        library.fragscope_mark.restype = None
        library.fragscope_mark.argtypes = [ctypes.c_char_p, ctypes.c_int]
        library.fragscope_mark_earlier.restype = None
        library.fragscope_mark_earlier.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint32]
        library.fragscope_configure.restype = ctypes.c_char_p
        library.fragscope_configure.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        library.fragscope_end.restype = None
        for text, kind, monotonic_ns, thread in earlier_marks():
            library.fragscope_mark_earlier(_bytes(text), kind, monotonic_ns, thread)
        _library = library
    return _library


def configure(name, value):
    """Before the first device is opened; raises EngineError with what is wrong."""
    error = load().fragscope_configure(name.encode(), os.fsencode(value))
    if error is not None:
        raise EngineError(error.decode(errors="replace"))


def _bytes(text):
    # A zero byte would end the text; what is no text has a name all the same.
    return str(text).replace("\0", " ").encode(errors="replace")


def mark(text, kind):
    """A point (0), or where a stage begins (1) or ends (2)."""
    _library.fragscope_mark(_bytes(text), kind)


def end():
    """Nothing is recorded any more, and the traces say that the process ended well."""
    _library.fragscope_end()


def ring_path(device):
    found = _library.fragscope_ring_path(int(device))
    return os.fsdecode(found) if found else None


def address_of(function):
    return ctypes.cast(function, ctypes.c_void_p).value
