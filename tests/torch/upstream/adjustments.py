# SPDX-License-Identifier: Apache-2.0
"""What is changed around the test file so that it runs on a PyTorch of another version, each with its reason.

The file itself is never touched. An adjustment is a function of PyTorch; it says whether it
applied. None may change what a test asserts about memory.
"""

import sys


def pool_handle_of_the_accelerator(torch):
    """Newer files take a third pool's number from torch.accelerator, to compare it with the numbers of two
    others. Where that name is missing, the number comes from the function that gives the first one."""
    if hasattr(torch.accelerator, "generate_graph_pool_handle"):
        return False
    torch.accelerator.generate_graph_pool_handle = torch.cuda.graph_pool_handle
    return True


def mempool_knows_its_allocator(torch):
    """PyTorch 2.15's MemPool has no attribute `allocator`, which a test reads before the counts and segments
    that it is about. It says what the constructor was given."""
    if hasattr(torch.cuda.MemPool, "allocator"):
        return False
    construct = torch.cuda.MemPool.__init__

    def init(self, *arguments, **options):
        construct(self, *arguments, **options)
        self.allocator = arguments[0] if arguments else options.get("allocator")

    torch.cuda.MemPool.__init__ = init
    return True


ADJUSTMENTS = (pool_handle_of_the_accelerator, mempool_knows_its_allocator)


def apply():
    """Applies all; the names of those that had something to do."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "accelerator"):
        return []
    return [change.__name__ for change in ADJUSTMENTS if change(torch)]
