# SPDX-License-Identifier: Apache-2.0
"""fragscope in a PyTorch job: records what the CUDA allocator does, so that a failed allocation can be
explained. Switched on by the environment, with no change to the job:

    PYTORCH_CUDA_ALLOC_CONF=backend:fragscope_attach python train.py

or here, at any time:

    fragscope.attach()

A job may say what it is doing, which the trace keeps:

    with fragscope.stage("checkpoint reading"):
        ...
    fragscope.mark("first step")

What is said before a device is used, or PyTorch imported, is kept until then: the last 64 marks. Where
nothing is recorded all of it does nothing, so it may stay in. To import this package imports neither
PyTorch nor anything else that takes time.
"""

__all__ = ["__version__", "attach", "mark", "ring_path", "stage"]


def __getattr__(name):
    if name == "__version__":
        from .version import VERSION

        return VERSION
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def attach(*, ring=None, directory=None, stacks=None, min_stack_size=None):
    """Records PyTorch's own allocator from now on; gives whether it is recorded. What stands in the way is
    said on standard error: a job never fails for it. `ring` and `min_stack_size` are sizes, as "64MiB" or
    in bytes, `stacks` is "off", "python" or "all"."""
    from . import activation

    return activation.attach(fragscope_ring=ring, fragscope_dir=directory, fragscope_stacks=stacks,
                             fragscope_min_stack_size=min_stack_size)


def mark(text):
    """Writes a point with this text into the traces of all devices."""
    _mark(text, 0)


class stage:  # Read as a verb: `with fragscope.stage("..."):`.
    """What happens inside is the stage with this name, in the traces of all devices."""

    def __init__(self, text):
        self._text = text

    def __enter__(self):
        _mark(self._text, 1)
        return self

    def __exit__(self, *_):
        _mark(self._text, 2)


def ring_path(device=0):
    """Where the device's trace lies; None if it is not recorded, or not used yet."""
    engine = _engine()
    return engine.ring_path(device) if engine else None


def _engine():
    """The recording part of this process, or None."""
    import sys

    engine = sys.modules.get(__name__ + ".engine")
    return engine if engine and engine.is_loaded() else None


# What was said before there was anything to record with; the last of it.
_early = []
_MOST_EARLY = 64


# More of a mark than any trace keeps (255 bytes).
_MOST_CHARACTERS = 256


def _mark(text, kind):
    text = str(text)[:_MOST_CHARACTERS]
    engine = _engine()
    if engine:
        engine.mark(text, kind)
        return
    from _thread import get_native_id
    from os import getpid
    from time import monotonic_ns

    _early.append((text, kind, monotonic_ns(), get_native_id(), getpid()))
    del _early[:-_MOST_EARLY]


def earlier_marks():
    """Once, what this process said before: text, kind, CLOCK_MONOTONIC, and the system's id of the thread."""
    from os import getpid

    marks = [mark[:-1] for mark in _early if mark[-1] == getpid()]
    _early.clear()
    return marks
