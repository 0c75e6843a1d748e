# SPDX-License-Identifier: Apache-2.0
"""Devices: what they claim to be, two of them, copies between them, the pool of cudaMallocAsync."""

import unittest

import support
import torch
from support import GIB, MIB


class Devices(unittest.TestCase):
    def test_presets_say_who_they_are(self):
        # The runner asked for a preset and 24 GiB, then for another preset.
        first, second = (torch.cuda.get_device_properties(i) for i in range(2))

        self.assertEqual(torch.cuda.device_count(), 2)
        self.assertEqual((first.name, first.major, first.minor), ("NVIDIA A100-SXM4-40GB", 8, 0))
        self.assertEqual(first.multi_processor_count, 108)
        self.assertEqual(first.total_memory, 24 * GIB)
        self.assertEqual((second.major, second.minor), (9, 0))
        self.assertEqual(second.max_threads_per_multi_processor, 2048)
        self.assertNotEqual(str(first.uuid), str(second.uuid))

    def test_each_device_has_its_own_books(self):
        before = [support.used_bytes(i) for i in range(2)]
        tensor = support.allocate(100 * MIB, "cuda:1")

        self.assertEqual(support.used_bytes(0), before[0])
        self.assertGreaterEqual(support.used_bytes(1), before[1] + tensor.numel())
        self.assertEqual(torch.cuda.mem_get_info(0)[1], 24 * GIB)

    def test_copies_between_devices_carry_their_bytes(self):
        source = torch.arange(1000, dtype=torch.int64)
        there = source.to("cuda:0").to("cuda:1")

        self.assertEqual(there.device.index, 1)
        self.assertTrue(torch.equal(there.cpu(), source))

    def test_pointers_know_their_device(self):
        first, second = support.allocate(1, "cuda:0"), support.allocate(1, "cuda:1")
        window = 6 << 40

        self.assertEqual((first.data_ptr() - (0x20 << 40)) // window, 0)
        self.assertEqual((second.data_ptr() - (0x20 << 40)) // window, 1)

    def test_visible_devices_are_chosen_by_the_environment(self):
        run = support.run_alone(
            "import torch; print(torch.cuda.device_count(), torch.cuda.get_device_name(0))",
            CUDA_VISIBLE_DEVICES="1")

        self.assertEqual(run.stdout.split(None, 1), ["1", "NVIDIA H100 80GB HBM3\n"])

    def test_device_memory_costs_no_host_memory(self):
        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * 4096

        before = resident()
        tensors = [support.allocate(6 * GIB), torch.zeros(6 * GIB, dtype=torch.uint8, device="cuda")]
        tensors.append(tensors[1].clone())

        self.assertLess(resident() - before, 64 * MIB)


class AsyncBackend(unittest.TestCase):
    def test_cuda_malloc_async_counts_in_its_pool(self):
        program = (
            "import torch; x = torch.empty(100 << 20, dtype=torch.uint8, device='cuda');"
            "print(torch.cuda.memory_allocated(), torch.cuda.memory_reserved()); del x;"
            "torch.cuda.empty_cache(); print(torch.cuda.memory_allocated())")
        run = support.run_alone(program, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")

        self.assertEqual(run.stdout.split(), [str(100 * MIB), str(100 * MIB), "0"])


if __name__ == "__main__":
    unittest.main()
