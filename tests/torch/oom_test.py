# SPDX-License-Identifier: Apache-2.0
"""Out of memory: the real exception and its text, limits, faults, neighbours, and NVML that fails."""

import re
import unittest

import support
import torch
from support import GIB, MIB


def gib(size):
    """As PyTorch prints it."""
    return f"{size / GIB:.2f} GiB"


class OutOfMemory(unittest.TestCase):
    def setUp(self):
        support.fresh()
        self.first = support.allocate(1)  # A context exists, and one segment.

    def tearDown(self):
        for kind in ("malloc", "create", "nvml"):
            support.clear_faults(kind)
        support.set_neighbour(0, 0)
        torch.cuda.set_per_process_memory_fraction(1.0)

    def message_of(self, size):
        with self.assertRaises(torch.OutOfMemoryError) as caught:
            support.allocate(size)
        return str(caught.exception)

    def test_the_message_has_the_figures_of_the_books(self):
        message = self.message_of(30 * GIB)

        self.assertIn("CUDA out of memory. Tried to allocate 30.00 GiB.", message)
        self.assertIn(f"GPU 0 has a total capacity of {gib(support.total_bytes())} of which "
                      f"{gib(support.free_bytes())} is free.", message)
        process = support.used_bytes() + 512 * MIB
        self.assertIn(f"this process has {process / MIB:.2f} MiB memory in use.", message)

    def test_the_card_takes_all_but_what_does_not_fit(self):
        page = 2 * MIB
        size = support.free_bytes() // page * page
        if not support.EXPANDABLE:
            self.message_of(size + page)
            support.allocate(size)
        else:
            # Pages of 20 MiB: the last one must fit whole.
            self.message_of(size + 20 * MIB)
            support.allocate(size // (20 * MIB) * (20 * MIB))
        self.assertGreater(torch.cuda.memory_stats()["num_ooms"], 0)

    def test_a_limit_fails_without_asking_the_driver(self):
        kind = "create" if support.EXPANDABLE else "malloc"
        torch.cuda.set_per_process_memory_fraction(0.25)
        before = support.call_count(kind)

        message = self.message_of(8 * GIB)

        self.assertRegex(message, re.escape(gib(0.25 * support.total_bytes())) + " allowed")
        self.assertEqual(support.call_count(kind), before)

    def test_neighbours_are_named_and_take_what_is_free(self):
        support.set_neighbour(0, 20 * GIB)

        message = self.message_of(6 * GIB)

        self.assertIn("has 20.00 GiB memory in use", message)
        self.assertIn(f"of which {gib(support.free_bytes())} is free", message)

    def test_one_failed_allocation_is_retried(self):
        retries = torch.cuda.memory_stats()["num_alloc_retries"]
        support.fail("create" if support.EXPANDABLE else "malloc")

        tensor = support.allocate(50 * MIB)

        self.assertEqual(tensor.numel(), 50 * MIB)
        self.assertEqual(torch.cuda.memory_stats()["num_alloc_retries"], retries + 1)

    def test_an_allocation_that_always_fails_is_out_of_memory(self):
        support.fail("create" if support.EXPANDABLE else "malloc", onward=True)

        self.assertIn("Tried to allocate 50.00 MiB", self.message_of(50 * MIB))

    def test_a_mapping_that_fails_is_no_out_of_memory(self):
        if not support.EXPANDABLE:
            self.skipTest("only expandable segments map")
        # In a process of its own: PyTorch keeps the pages that it could not map in its books, and
        # stops at a check of its own when it comes to them again.
        program = ("import support\nsupport.allocate(1)\nsupport.fail('map')\n"
                   "support.allocate(50 << 20)")
        run = support.run_alone(program)

        self.assertEqual(run.returncode, 1)
        self.assertIn("RuntimeError: CUDA driver error: out of memory", run.stderr)

    def test_without_nvml_the_message_does_without_processes(self):
        support.fail("nvml", onward=True)
        try:
            message = self.message_of(30 * GIB)
        except RuntimeError as error:  # 2.6 insists on NVML.
            self.assertLess(support.version(), (2, 15))
            self.assertIn("nvml", str(error).lower())
            return

        self.assertIn("Tried to allocate 30.00 GiB", message)
        self.assertNotIn("memory in use", message)

    def test_a_fragmented_heap_fails_where_expandable_segments_do_not(self):
        # Each segment of 100 MiB is split; one half of each is kept, so no segment can go back.
        count = support.free_bytes() // (100 * MIB)
        whole = [support.allocate(100 * MIB) for _ in range(count)]
        del whole
        halves = [support.allocate(50 * MIB) for _ in range(2 * count)]
        del halves[::2]

        if support.EXPANDABLE:
            self.assertEqual(support.allocate(1000 * MIB).numel(), 1000 * MIB)
        else:
            self.assertIn("Tried to allocate 1000.00 MiB", self.message_of(1000 * MIB))
            free = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
            self.assertGreater(free, 10 * GIB)


if __name__ == "__main__":
    unittest.main()
