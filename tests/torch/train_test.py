# SPDX-License-Identifier: Apache-2.0
"""A 12-layer transformer in training, and an inference loop with a growing KV cache."""

import pickle
import tempfile
import unittest

import support
import torch
from support import MIB


class Training(unittest.TestCase):
    def test_trains_and_leaves_a_snapshot(self):
        torch.cuda.memory._record_memory_history(max_entries=100_000)
        model = support.transformer()
        support.train(model, 3)
        snapshot = torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(enabled=None)

        segments = snapshot["segments"]
        self.assertGreater(len(snapshot["device_traces"][0]), 1000)
        self.assertEqual(sum(s["total_size"] for s in segments), torch.cuda.memory_reserved())
        self.assertEqual(sum(s["allocated_size"] for s in segments), torch.cuda.memory_allocated())
        expandable = {s["is_expandable"] for s in segments}
        self.assertEqual(expandable, {support.EXPANDABLE})

    def test_reserved_is_what_the_device_gave(self):
        support.train(support.transformer(layers=2), 2)

        # Nothing else of this process holds device memory.
        self.assertEqual(torch.cuda.memory_reserved(), support.used_bytes())
        free, total = torch.cuda.mem_get_info()
        self.assertEqual(total - free, torch.cuda.memory_reserved() + 512 * MIB)

    def test_steps_repeat_after_the_second(self):
        model = support.transformer(layers=2)
        peaks = []
        for _ in range(4):
            torch.cuda.reset_peak_memory_stats()
            support.train(model, 1)
            peaks.append(torch.cuda.max_memory_allocated())

        self.assertEqual(peaks[2], peaks[3])

    def test_an_empty_cache_gives_everything_back(self):
        model = support.transformer(layers=2)
        support.train(model, 1)
        del model
        support.fresh()

        left = torch.cuda.memory_allocated()  # cuBLAS's workspace, which PyTorch keeps.
        self.assertLess(left, 80 * MIB)
        self.assertLess(support.used_bytes(), left + 40 * MIB)

    def test_a_dumped_snapshot_can_be_read_back(self):
        support.allocate(5 * MIB)
        with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
            torch.cuda.memory._dump_snapshot(file.name)
            with open(file.name, "rb") as stream:
                snapshot = pickle.load(stream)

        self.assertIn("segments", snapshot)


class Libraries(unittest.TestCase):
    def test_convolutions_and_normalisation_train(self):
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 64, 7, 2, 3), torch.nn.BatchNorm2d(64), torch.nn.ReLU(),
            torch.nn.MaxPool2d(3, 2, 1), torch.nn.Conv2d(64, 128, 3), torch.nn.BatchNorm2d(128),
            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(128, 10)).cuda()
        for layout in (torch.contiguous_format, torch.channels_last):
            for half in (False, True):
                x = torch.empty(4, 3, 64, 64, device="cuda").to(memory_format=layout)
                with torch.autocast("cuda", dtype=torch.float16, enabled=half):
                    model(x).sum().backward()

        self.assertIsNotNone(model[0].weight.grad)

    def test_fused_attention_trains(self):
        q = torch.empty(1, 4, 128, 64, device="cuda", dtype=torch.float16, requires_grad=True)
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()

        self.assertEqual(q.grad.shape, q.shape)

    def test_what_is_missing_says_so_and_fails(self):
        run = support.run_alone("import torch; torch.linalg.svd(torch.empty(64, 64).cuda())")

        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr.count("cusolverDnCreate is not implemented"), 1)


class Serving(unittest.TestCase):
    def test_a_kv_cache_grows_by_what_each_token_adds(self):
        layers, width = 4, 256
        blocks = torch.nn.ModuleList([support.Block(width, 4) for _ in range(layers)]).cuda()
        past = [None] * layers
        sizes = []
        with torch.no_grad():
            for step in range(64):
                x = torch.empty(2, 16 if step == 0 else 1, width, device="cuda")
                for i, block in enumerate(blocks):
                    x, past[i] = block.attend(x, past[i])
                sizes.append(sum(t.numel() * 4 for pair in past for t in pair))

        # Two sequences, keys and values in fp32, in each layer.
        self.assertEqual(sizes[-1] - sizes[-2], 2 * 2 * layers * width * 4)
        self.assertEqual(past[0][0].shape[2], 16 + 63)
        self.assertGreaterEqual(torch.cuda.memory_allocated(), sizes[-1])


if __name__ == "__main__":
    unittest.main()
