# SPDX-License-Identifier: Apache-2.0
"""Private pools: MemPool and what torch.cuda.graph captures."""

import ctypes
import unittest

import support
import torch
from support import MIB


def pools_in_use():
    return {tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot()}


def capture_ends(stream):
    """What the driver says that the next captured work on the stream will depend on."""
    status, count = ctypes.c_int(), ctypes.c_size_t()
    nodes = ctypes.POINTER(ctypes.c_void_p)()
    code = ctypes.CDLL("libcuda.so.1").cuStreamGetCaptureInfo_v2(
        ctypes.c_void_p(stream.cuda_stream), ctypes.byref(status), None, None, ctypes.byref(nodes),
        ctypes.byref(count))
    assert code == 0, code
    return status.value, set(nodes[:count.value]) if count.value else set()


def inputs_of(node):
    """The nodes that the driver says a node of a graph depends on."""
    ask = ctypes.CDLL("libcuda.so.1").cuGraphNodeGetDependencies
    count = ctypes.c_size_t()
    assert ask(ctypes.c_void_p(node), None, ctypes.byref(count)) == 0
    nodes = (ctypes.c_void_p * count.value)()
    assert ask(ctypes.c_void_p(node), nodes, ctypes.byref(count)) == 0
    return set(nodes[:count.value])


class MemPools(unittest.TestCase):
    def setUp(self):
        support.fresh()

    def test_a_pool_has_segments_of_its_own(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = support.allocate(30 * MIB)
        outside = support.allocate(30 * MIB)

        self.assertIn(tuple(pool.id), pools_in_use())
        self.assertIn((0, 0), pools_in_use())
        self.assertNotEqual(inside.data_ptr(), outside.data_ptr())

    def test_a_pool_goes_back_with_its_last_holder(self):
        before = support.used_bytes()
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            support.allocate(30 * MIB)
        self.assertGreater(support.used_bytes(), before)

        del pool
        torch.cuda.empty_cache()
        self.assertEqual(support.used_bytes(), before)


class Graphs(unittest.TestCase):
    def setUp(self):
        support.fresh()

    def capture(self, size=30 * MIB):
        graph = torch.cuda.CUDAGraph()
        x = torch.zeros(size // 4, device="cuda")
        with torch.cuda.graph(graph):
            y = x + 1
            z = y * 2
        return graph, (x, z)

    def test_a_capture_allocates_from_a_pool_of_its_own(self):
        graph, _ = self.capture()
        pool = tuple(graph.pool())

        self.assertNotEqual(pool, (0, 0))
        self.assertIn(pool, pools_in_use())
        graph.replay()
        torch.cuda.synchronize()

    def test_temporaries_of_a_graph_stay_reserved(self):
        graph, _ = self.capture()
        torch.cuda.empty_cache()
        held = [s for s in torch.cuda.memory_snapshot()
                if tuple(s["segment_pool_id"]) == tuple(graph.pool())]

        self.assertGreaterEqual(sum(s["total_size"] for s in held), 60 * MIB)

    def test_a_graph_that_is_gone_gives_its_pool_back(self):
        before = support.used_bytes()
        graph, tensors = self.capture()
        del graph, tensors
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

        self.assertEqual(support.used_bytes(), before)

    def test_graphs_can_share_a_pool(self):
        first, kept = self.capture()
        second = torch.cuda.CUDAGraph()
        with torch.cuda.graph(second, pool=first.pool()):
            shared = torch.zeros(1000, device="cuda") + 1

        self.assertEqual(tuple(second.pool()), tuple(first.pool()))
        del kept, shared

    def test_side_streams_join_the_capture(self):
        graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        x = torch.zeros(1000, device="cuda")
        with torch.cuda.graph(graph):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.assertTrue(torch.cuda.is_current_stream_capturing())
                y = x + 1
            torch.cuda.current_stream().wait_stream(side)
        self.assertFalse(torch.cuda.is_current_stream_capturing())
        del y

    def test_the_driver_shows_what_a_capture_depends_on(self):
        main, side = torch.cuda.Stream(), torch.cuda.Stream()
        x = torch.zeros(1000, device="cuda")
        self.assertEqual(capture_ends(main), (0, set()))
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=main):
            x.add_(1)
            active, before = capture_ends(main)
            side.wait_stream(main)
            with torch.cuda.stream(side):
                x.add_(2)
            x.add_(3)
            _, ours = capture_ends(main)
            _, theirs = capture_ends(side)
            main.wait_stream(side)
            _, joined = capture_ends(main)
            inputs = [inputs_of(*ours), inputs_of(*theirs)]

        self.assertEqual((active, len(before), len(ours), len(theirs)), (1, 1, 1, 1))
        self.assertEqual(inputs, [before, before])
        self.assertEqual(joined, ours | theirs)

    def test_waiting_inside_a_capture_breaks_it(self):
        # In a process of its own: 2.6 never ends a capture that failed.
        run = support.run_alone(
            "import torch\nx = torch.zeros(1000, device='cuda')\n"
            "with torch.cuda.graph(torch.cuda.CUDAGraph()):\n    (x + 1).sum().item()")

        self.assertEqual(run.returncode, 1)
        self.assertIn("operation not permitted when stream is capturing", run.stderr)
        self.assertIn("operation failed due to a previous error during capture", run.stderr)

    def test_copies_in_a_graph_happen_at_each_replay(self):
        graph = torch.cuda.CUDAGraph()
        source = torch.full((1000,), 7, dtype=torch.int32).pin_memory()
        target = torch.zeros(1000, dtype=torch.int32, device="cuda")
        with torch.cuda.graph(graph):
            target.copy_(source, non_blocking=True)
        source.fill_(9)

        graph.replay()
        torch.cuda.synchronize()
        self.assertEqual(set(target.cpu().tolist()), {9})

    def test_a_model_can_be_captured(self):
        model = support.transformer(layers=2)
        x = torch.zeros(2, 32, dtype=torch.int64, device="cuda")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.no_grad():
            model(x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), torch.no_grad():
            y = model(x)

        graph.replay()
        self.assertEqual(y.shape, (2, 32, 8192))


if __name__ == "__main__":
    unittest.main()
