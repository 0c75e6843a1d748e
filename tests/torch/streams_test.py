# SPDX-License-Identifier: Apache-2.0
"""Several streams: record_stream, frees that wait for events, and time."""

import unittest

import support
import torch
from support import MIB


class Streams(unittest.TestCase):
    def setUp(self):
        support.fresh()

    def pending_bytes(self):
        """Bytes in blocks that were freed and wait for an event."""
        return sum(block["size"] for segment in torch.cuda.memory_snapshot()
                   for block in segment["blocks"] if block["state"] == "active_pending_free")

    def free_while_used(self, side):
        """Allocates on the current stream, uses on the other one, frees. The address."""
        tensor = support.allocate(30 * MIB)
        tensor.record_stream(side)
        return tensor.data_ptr()

    def test_a_free_waits_for_the_other_stream(self):
        side = torch.cuda.Stream()
        support.hold(side)
        address = self.free_while_used(side)

        other = support.allocate(30 * MIB)
        self.assertNotEqual(other.data_ptr(), address)
        self.assertEqual(self.pending_bytes(), 30 * MIB)

        support.release(side)
        self.assertEqual(support.allocate(30 * MIB).data_ptr(), address)

    def test_without_a_hold_the_block_comes_back_at_once(self):
        address = self.free_while_used(torch.cuda.Stream())

        self.assertEqual(support.allocate(30 * MIB).data_ptr(), address)

    def test_a_full_card_waits_for_pending_frees(self):
        side = torch.cuda.Stream()
        support.hold(side)
        size = support.free_bytes() // (20 * MIB) * (20 * MIB)  # Whole pages of either kind.
        support.allocate(size).record_stream(side)
        self.assertEqual(self.pending_bytes(), size)

        # Served only by waiting for the held stream, which ends the hold.
        tensor = support.allocate(size)
        self.assertEqual(self.pending_bytes(), 0)
        self.assertEqual(tensor.numel(), size)

    def test_blocks_stay_with_their_stream(self):
        first, second = torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(first):
            address = support.allocate(30 * MIB).data_ptr()
        with torch.cuda.stream(second):
            other = support.allocate(30 * MIB).data_ptr()

        self.assertNotEqual(address, other)

    def test_sleeping_takes_its_time(self):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.cuda._sleep(5_000_000)
        end.record()

        self.assertFalse(end.query())
        end.synchronize()
        self.assertTrue(end.query())
        self.assertAlmostEqual(start.elapsed_time(end), 5.0, places=3)

    def test_streams_sleep_beside_each_other(self):
        first, second = torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(first):
            torch.cuda._sleep(1_000_000)

        self.assertTrue(second.query())
        second.wait_stream(first)
        self.assertFalse(second.query())

    def test_pinned_copies_carry_their_bytes(self):
        source = torch.arange(100_000, dtype=torch.int32).pin_memory()
        self.assertTrue(source.is_pinned())

        back = source.to("cuda", non_blocking=True).to("cpu")
        self.assertTrue(torch.equal(source, back))


if __name__ == "__main__":
    unittest.main()
