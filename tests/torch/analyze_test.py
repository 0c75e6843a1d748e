# SPDX-License-Identifier: Apache-2.0
"""`fragscope analyze` on a snapshot agrees, to the byte, with torch.cuda.memory_stats() of the process that
wrote it: every layer at the end, and the peaks. History is on before the first allocation."""

import json
import os
import subprocess
import tempfile
import unittest

import support
import torch
from support import MIB

TOOL = os.environ["FRAGSCOPE"]

# A figure of PyTorch's statistics, and what the JSON calls it.
LAYERS = {
    "reserved_bytes": "reserved_bytes", "allocated_bytes": "allocated_bytes",
    "active_bytes": "active_bytes", "requested_bytes": "requested_active_bytes",
    "inactive_split_bytes": "inactive_split_bytes",
}

# Blocks of earlier tests that the libraries keep, a failure inside the trace, traces before 2.12 without pools.
EXPECTED_SIGNALS = {"history-cut", "dump-later-than-failure", "assumed-pool"}


def analyze(*options):
    """The JSON of a snapshot written now."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        torch.cuda.memory._dump_snapshot(file.name)
        # Virtual CUDA is for PyTorch alone.
        environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        run = subprocess.run([TOOL, "analyze", file.name, "--json", *options], check=True,
                             capture_output=True, text=True, env=environment)
    return json.loads(run.stdout)


class Agreement(unittest.TestCase):
    def setUp(self):
        # Peaks and history begin together. Turning history off forgets the events of earlier tests.
        torch.cuda.memory._record_memory_history(enabled=None)
        support.fresh()
        torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")

    def assert_agrees(self):
        """Every layer of device 0, now and at its peak; gives the JSON for what else is to be seen."""
        statistics = torch.cuda.memory_stats()
        answer = analyze()
        device, = [each for each in answer["devices"] if each["device"] == 0]
        for theirs, ours in LAYERS.items():
            with self.subTest(layer=theirs):
                self.assertEqual(device["end"][ours], statistics[f"{theirs}.all.current"])
                self.assertNotIn(ours.replace("_bytes", "_high_bytes"), device["peaks"])
                self.assertEqual(device["peaks"][ours], statistics[f"{theirs}.all.peak"])
        self.assertEqual(device["peak"]["allocated_bytes"], torch.cuda.max_memory_allocated())
        self.assertLessEqual({each["signal"] for each in answer["trust"]}, EXPECTED_SIGNALS)
        return answer

    def test_training(self):
        model = support.transformer(layers=4)
        support.train(model, 3)

        self.assert_agrees()

    def test_training_that_starts_over(self):
        for layers in (2, 4):
            model = support.transformer(layers=layers)
            support.train(model, 2)
            del model
        torch.cuda.empty_cache()

        self.assert_agrees()

    def test_frees_that_wait_for_other_streams(self):
        side, other = torch.cuda.Stream(), torch.cuda.Stream()
        support.hold(side)
        kept = []
        for size in (30, 3, 70, 5, 40):
            tensor = support.allocate(size * MIB)
            kept.append(support.allocate(size * MIB // 3))
            tensor.record_stream(side)
            tensor.record_stream(other)
            del tensor
        with torch.cuda.stream(other):
            kept.append(support.allocate(12 * MIB))

        answer = self.assert_agrees()
        self.assertGreaterEqual(answer["devices"][0]["end"]["pending_bytes"], 148 * MIB)

        support.release(side)
        kept.append(support.allocate(60 * MIB))
        self.assert_agrees()

    def test_pools(self):
        pool, graph = torch.cuda.MemPool(), torch.cuda.CUDAGraph()
        with torch.cuda.use_mem_pool(pool):
            inside = [support.allocate(size * MIB) for size in (1, 9, 33)]
            del inside[1]
        x = torch.zeros(MIB, device="cuda")
        with torch.cuda.graph(graph):
            y = (x + 1) * 2
        outside = support.allocate(25 * MIB)
        del outside

        answer = self.assert_agrees()
        pools = {tuple(home["pool"]) for home in answer["devices"][0]["end"]["homes"]}
        self.assertLessEqual({(0, 0), tuple(pool.id), tuple(graph.pool())}, pools)
        del y

    def test_a_failure_that_is_caught(self):
        halves = [support.allocate(50 * MIB) for _ in range(8)]
        del halves[::2]
        for size in (1 << 45, 30 << 30):
            with self.assertRaises(torch.OutOfMemoryError):
                support.allocate(size)
        halves.append(support.allocate(20 * MIB))

        answer = self.assert_agrees()
        self.assertEqual(len(answer["failures"]), 2)

    def test_a_full_card_is_released_and_used_again(self):
        size = support.free_bytes() // (100 * MIB) * 100 * MIB
        whole = [support.allocate(size // 4) for _ in range(4)]
        del whole[::2]
        whole.append(support.allocate(size // 4 + 40 * MIB))

        self.assert_agrees()

    def test_random_sizes(self):
        random = torch.Generator().manual_seed(7)
        held = []
        for _ in range(1500):
            if len(held) > 40:
                held.pop(int(torch.randint(len(held), (1,), generator=random)))
            exponent = 9 + 18 * float(torch.rand(1, generator=random))
            held.append(support.allocate(int(2 ** exponent)))

        self.assert_agrees()

    def test_roundings_that_settings_ask_for(self):
        settings = ("roundup_power2_divisions:4,max_split_size_mb:64"
                    + (",expandable_segments:True" if support.EXPANDABLE else ""))
        program = ("import analyze_test, support, torch\n"
                   "class Alone(analyze_test.Agreement):\n"
                   "    pass\n"
                   "alone = Alone('test_random_sizes')\n"
                   "alone.setUp(); alone.test_random_sizes()")
        run = support.run_alone(program, PYTORCH_CUDA_ALLOC_CONF=settings)
        self.assertEqual(run.returncode, 0, run.stderr)


if __name__ == "__main__":
    unittest.main()
