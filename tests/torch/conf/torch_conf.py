# SPDX-License-Identifier: Apache-2.0
"""PyTorch's allocator settings: set from a string, and read back whole.

A snapshot shows only some of the options, so all of them are read out of PyTorch's own objects, whose
layout is that of the headers of these two releases (c10/core/AllocatorConfig.h and
c10/cuda/CUDAAllocatorConfig.h). `check_layout` fails where another release lays them out differently.
"""

import ctypes
import os
import re
import tempfile
import warnings

import torch

NEW = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 10)
MIB = 1 << 20

_cuda = ctypes.CDLL("libc10_cuda.so")
_COMMON = "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig8instanceEv"
_DEVICE = "_ZZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig8instanceEvE10s_instance"
if NEW:
    _common_instance = getattr(ctypes.CDLL("libc10.so"), _COMMON)
    _common_instance.restype = ctypes.c_void_p

_PLACE = re.compile(r' at "[^"]*":\d+')
_WARNING = re.compile(r"^\[W.*?\] Warning: (.*) \(function [^()]*(?:\(\))?\)$", re.MULTILINE)
_TRIGGERED = re.compile(r" \(Triggered internally at [^()]*\)$")


def _word(address):
    return ctypes.c_uint64.from_address(address).value


def _flag(address):
    return ctypes.c_uint8.from_address(address).value != 0


def _double(address):
    return ctypes.c_double.from_address(address).value


def _words(address):
    """A std::vector of 64-bit numbers."""
    return [_word(place) for place in range(_word(address), _word(address + 8), 8)]


def _text(address):
    return ctypes.string_at(_word(address), _word(address + 8)).decode()


def _old_text(address):
    """A string of the ABI from before C++11: its length stands in front of it."""
    return ctypes.string_at(_word(address), _word(_word(address) - 24)).decode()


def _reserve(address):
    return [_flag(address), _double(address + 8)]


def _reserves(address):
    """A ska::flat_hash_map from names to reserves: slots of a distance (negative: empty), the name and the
    reserve."""
    first, slots = _word(address), _word(address + 8) + ctypes.c_int8.from_address(address + 17).value
    if _word(address + 24) == 0:
        return {}
    places = range(first, first + 56 * slots, 56)
    return {_text(place + 8): _reserve(place + 40) for place in places
            if ctypes.c_int8.from_address(place).value >= 0}


def _new_options():
    common = _common_instance()
    device = ctypes.c_void_p.in_dll(_cuda, _DEVICE).value
    return {
        "large_segment_size": _word(common),
        "max_split_size": _word(common + 8),
        "max_non_split_rounding": _word(common + 16),
        "roundup_power2_divisions": _words(common + 24),
        "garbage_collection_threshold": _double(common + 48),
        "expandable_segments": _flag(common + 56),
        "pinned_use_background_threads": _flag(common + 57),
        "pinned_max_round_threshold": _word(common + 64),
        "pinned_max_cached_size": _word(common + 72),
        "last_text": _text(common + 120),
        "pinned_num_register_threads": _word(device),
        "pinned_reserve_segment_size_mb": _word(device + 8),
        "release_lock_on_cudamalloc": _flag(device + 20),
        "pinned_use_cuda_host_register": _flag(device + 21),
        "graph_capture_record_stream_reuse": _flag(device + 22),
        "per_process_memory_fraction": _double(device + 24),
        "pinned_free_catch_all": _flag(device + 32),
        "throw_on_cudamalloc_oom": _flag(device + 33),
        "expandable_segments_reserve": _reserve(device + 40) if _flag(device + 56) else None,
        "expandable_segments_reserve_by_class": _reserves(device + 64),
    }


def _old_options():
    device = ctypes.c_void_p.in_dll(_cuda, _DEVICE).value
    return {
        "max_split_size": _word(device),
        "max_non_split_rounding": _word(device + 8),
        "roundup_power2_divisions": _words(device + 16),
        "garbage_collection_threshold": _double(device + 40),
        "pinned_num_register_threads": _word(device + 48),
        "expandable_segments": _flag(device + 56),
        "release_lock_on_cudamalloc": _flag(device + 57),
        "pinned_use_cuda_host_register": _flag(device + 58),
        "pinned_use_background_threads": _flag(device + 59),
        "last_text": _old_text(device + 64),
    }


def options():
    """Every option that this release has, by the names of conf_print."""
    return _new_options() if NEW else _old_options()


def error_of(error):
    """Type and text, without the place in PyTorch's source."""
    return [type(error).__name__, _PLACE.sub("", str(error))]


class StandardError:
    """What is written to standard error, from any language, while it is open."""

    def __enter__(self):
        self.file = tempfile.TemporaryFile()
        self.saved = os.dup(2)
        os.dup2(self.file.fileno(), 2)
        return self

    def __exit__(self, *_):
        os.dup2(self.saved, 2)
        os.close(self.saved)
        self.file.close()

    def take(self):
        self.file.seek(0)
        text = self.file.read().decode()
        self.file.seek(0)
        self.file.truncate()
        return text


def apply(text, stderr):
    """What the string did: its error, its warnings and the options after it."""
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if NEW:
                torch._C._accelerator_setAllocatorSettings(text)
            else:
                torch.cuda.memory._set_allocator_settings(text)
        except Exception as exception:  # Any type: the type is what is compared.
            error = error_of(exception)
    said = _WARNING.findall(stderr.take())
    said += [_TRIGGERED.sub("", str(warning.message)) for warning in caught]
    return {"error": error, "warnings": said, "options": options()}


def check_layout():
    """The places above hold what a snapshot shows of the same options; only `native` has snapshots."""
    if torch.cuda.get_allocator_backend() != "native":
        return
    with StandardError() as stderr:
        apply("max_split_size_mb:77,garbage_collection_threshold:0.25,expandable_segments:True,"
              "roundup_power2_divisions:[1:2,2:4,>:8],pinned_num_register_threads:16", stderr)
        ours, theirs = options(), torch.cuda.memory._snapshot()["allocator_settings"]
        apply("expandable_segments:False,pinned_num_register_threads:1", stderr)
        apply("", stderr)
    assert ours["max_split_size"] == theirs["max_split_size"] == 77 * MIB
    assert ours["garbage_collection_threshold"] == theirs["garbage_collection_threshold"] == 0.25
    assert ours["expandable_segments"] is theirs["expandable_segments"] is True
    assert ours["pinned_num_register_threads"] == theirs["pinned_num_register_threads"] == 16
    assert ours["roundup_power2_divisions"] == list(theirs["roundup_power2_divisions"].values())
    assert ours["last_text"] == theirs["PYTORCH_CUDA_ALLOC_CONF"]
