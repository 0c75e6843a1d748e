# SPDX-License-Identifier: Apache-2.0
"""Programs for fit_test.py: what they ask of the allocator does not depend on what it answers, so that
each asks the same on every device and under every setting, until a request is refused."""

import random

import support
import torch
from support import MIB

SEEDS = range(10)
STEPS = 220
# The allocator's classes: small, those that share segments of 20 MiB, those with a segment of their own.
CLASSES = ((512, MIB), (MIB + 1, 10 * MIB), (10 * MIB, 48 * MIB))


def mixture(seed):
    """Takes and gives back on two streams, uses blocks on the other one; some seeds empty the cache."""
    draw = random.Random(seed)
    streams = [torch.cuda.default_stream(), torch.cuda.Stream()]
    weights = draw.choice(((3, 3, 1), (1, 4, 2), (2, 1, 3)))
    empties = seed % 3 == 0
    held = []
    for step in range(STEPS):
        if empties and step % 70 == 69:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        # It fills up, and from then on goes up and down.
        if held and draw.random() < (0.25 if step < STEPS // 3 else 0.52):
            tensor = held.pop(draw.randrange(len(held)))
            if draw.random() < 0.1:
                tensor.record_stream(streams[draw.randrange(2)])
            del tensor
            continue
        least, most = draw.choices(CLASSES, weights)[0]
        with torch.cuda.stream(streams[draw.random() < 0.3]):
            held.append(support.allocate(draw.randrange(least, most)))


# Of `growing`'s device: what its requests need is there, but not in one piece.
GROWING_DEVICE = 2072 * MIB


def growing():
    """Each round wants more at once than any before, and keeps a part of it that fits nowhere else."""
    kept = []
    for turn in range(9):
        whole = support.allocate((100 + 20 * turn) * MIB)
        del whole
        kept.append(support.allocate((60 + 14 * turn) * MIB))


PROGRAMS = {"growing": growing, **{f"seed {seed}": lambda seed=seed: mixture(seed) for seed in SEEDS}}


def run(name):
    """What came of it."""
    try:
        PROGRAMS[name]()
    except torch.OutOfMemoryError as error:
        return {"served": False, "error": str(error).splitlines()[0]}
    return {"served": True}
