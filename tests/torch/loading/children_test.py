# SPDX-License-Identifier: Apache-2.0
"""Every process that a job starts is recorded as the job is: by torchrun, spawn, forkserver, as a program of
its own; and a fork harms nobody."""

import itertools
import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installed import InstalledTest  # noqa: E402

CUDA = "PYTORCH_CUDA_ALLOC_CONF"
TEXTS = tuple(f"max_split_size_mb:64,backend:{backend},fragscope_ring:1MiB"
              for backend in ("fragscope_attach", "fragscope"))

# What every process of a test does: some work, and one line about itself.
WORK = """
import json, os, sys

def work(name):
    import torch
    held = [torch.empty(n << 20, device="cuda", dtype=torch.uint8) for n in (3, 5, 30)]
    del held[1]
    split = torch.cuda.memory._snapshot()["allocator_settings"]["max_split_size"]
    line = json.dumps({"name": name, "pid": os.getpid(), "variable": os.environ["PYTORCH_CUDA_ALLOC_CONF"],
                       "split": split})
    os.write(1, (line + "\\n").encode())
"""

SPAWN = WORK + """
if __name__ == "__main__":
    import multiprocessing
    work("parent")
    for number in range(2):
        process = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(f"child {number}",))
        process.start()
        process.join()
        assert process.exitcode == 0, process.exitcode
"""

PROGRAMS = WORK + """
import subprocess
if len(sys.argv) > 1:
    work("child")
else:
    work("parent")
    subprocess.run([sys.executable, __file__, "child"], check=True)
    subprocess.run(["/bin/sh", "-c", f'exec "{sys.executable}" -I "{__file__}" child'], check=True)
"""

RANKS = WORK + """
work("rank " + os.environ["RANK"])
"""

# A child of a process that has imported PyTorch, but not used CUDA.
FORK = WORK + """
import multiprocessing, os, torch

def fails():
    work("child")
    raise ValueError("as it should be")

def is_killed():
    work("child")
    os.kill(os.getpid(), 9)

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    for target, code in ((work, 0), (fails, 1), (is_killed, -9)):
        process = context.Process(target=target, args=("child",) if target is work else ())
        process.start()
        process.join()
        assert process.exitcode == code, process.exitcode
    with context.Pool(1) as pool:
        pool.map(work, ["pool"])
        pool.close()
        pool.join()
"""

# Workers that use the GPU.
LOADER_ON_GPU = WORK + """
import torch
class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == 0:
            work("worker")
        return float(index)
if __name__ == "__main__":
    work("parent")
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=1, multiprocessing_context="spawn")
    assert len(list(loader)) == 1
"""

LOADER = WORK + """
import torch
class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.full((16,), float(index))
if __name__ == "__main__":
    work("parent")
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True,
                                         multiprocessing_context=sys.argv[1])
    kept = torch.empty(1 << 20, device="cuda")
    total = sum(batch.sum().item() for _ in range(2) for batch in loader)
    assert total == 2 * 16 * sum(range(64)), total
    del kept
"""

# Whoever starts to record removes rings that ended without a failed request; with one, all stay.
FAIL = """
_work = work
def work(name):
    _work(name)
    import torch
    try: torch.empty(1 << 45, device="cuda")
    except RuntimeError: pass
"""


def failing(program):
    return program.replace(WORK, WORK + FAIL)


class Children(InstalledTest):
    def started(self, text, program, *arguments, launcher=(), **environment):
        """Runs a program from a file; what its processes said of themselves."""
        file = self.rings / "program.py"
        file.write_text(program)
        lines = self.output_of(*launcher, file, *arguments, **{CUDA: text, **environment}).splitlines()
        return [json.loads(line) for line in lines]

    def check(self, text, said, count, ends=("ended",)):
        self.assertEqual(len(said), count)
        for one in said:
            self.assertEqual((one["variable"], one["split"]), (text, 64 << 20), one)
        rings = {ring["pid"]: ring for ring in self.listed()}
        self.assertEqual(len(rings), count)
        for one in said:
            ring = rings[one["pid"]]
            self.assertGreater(ring["written_records"], 5)
            self.assertIn(ring["state"], ends)
        return rings

    def clear(self):
        for ring in self.rings.glob("*.ring"):
            ring.unlink()

    def test_spawn_and_forkserver(self):
        for text, method in itertools.product(TEXTS, ("spawn", "forkserver")):
            with self.subTest(text=text, method=method):
                self.clear()
                # multiprocessing ends its children without what runs at an exit.
                self.check(text, self.started(text, failing(SPAWN), method), 3)

    def test_fork_before_cuda_is_used(self):
        for text in TEXTS:
            with self.subTest(text=text):
                self.clear()
                file = self.rings / "program.py"
                file.write_text(failing(FORK))
                done = self.run_python(file, **{CUDA: text})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("ValueError: as it should be", done.stderr)
                said = [json.loads(line) for line in done.stdout.splitlines()]
                rings = self.check(text, said, 4, ends=("ended", "dead"))
                # Only the third was killed.
                self.assertEqual([rings[one["pid"]]["state"] for one in said], ["ended", "ended", "dead", "ended"])

    def test_fork_while_others_are_inside_the_driver(self):
        # A mark asks the driver what is free, with our lock held; a driver may lock itself for a fork.
        program = ("import os, threading, torch, fragscope\n"
                   "kept = torch.empty(1, device='cuda')\n"
                   "done = threading.Event()\n"
                   "def say():\n"
                   "    while not done.is_set(): fragscope.mark('here')\n"
                   "threads = [threading.Thread(target=say) for _ in range(6)]\n"
                   "for thread in threads: thread.start()\n"
                   "for _ in range(100):\n"
                   "    child = os.fork()\n"
                   "    if child == 0:\n"
                   "        fragscope.mark('child')\n"
                   "        os._exit(0)\n"
                   "    os.waitpid(child, 0)\n"
                   "done.set()\n"
                   "for thread in threads: thread.join()\n"
                   "print('ended')\n")
        for backend in ("fragscope_attach", "fragscope"):
            with self.subTest(backend=backend):
                self.assertEqual(self.output_of("-c", program, PYTORCH_CUDA_ALLOC_CONF=f"backend:{backend}"), "ended\n")

    def test_workers_of_a_data_loader_on_a_gpu(self):
        for text in TEXTS:
            with self.subTest(text=text):
                self.clear()
                self.check(text, self.started(text, failing(LOADER_ON_GPU)), 2)

    def test_programs(self):
        for text in TEXTS:
            with self.subTest(text=text):
                self.clear()
                self.check(text, self.started(text, failing(PROGRAMS)), 3)

    def test_torchrun_with_two_ranks(self):
        for text in TEXTS:
            with self.subTest(text=text):
                self.clear()
                file = self.rings / "program.py"
                file.write_text(failing(RANKS))
                done = self.run_python("-m", "torch.distributed.run", "--nproc-per-node", "2", file,
                                       **{CUDA: text, "OMP_NUM_THREADS": "1"})
                self.assertEqual(done.returncode, 0, done.stderr)
                said = [json.loads(line) for line in done.stdout.splitlines()]
                rings = self.check(text, said, 2)
                ranks = {one["pid"]: int(one["name"].split()[1]) for one in said}
                self.assertEqual({pid: ring["rank"] for pid, ring in rings.items()}, ranks)
                for pid, rank in ranks.items():
                    self.assertIn(f"-rank{rank}-", rings[pid]["path"])

    def test_workers_of_a_data_loader(self):
        for text, method in itertools.product(TEXTS, ("fork", "spawn")):
            with self.subTest(text=text, method=method):
                self.clear()
                # Workers touch no GPU; what they inherit by a fork is silent in them.
                self.check(text, self.started(text, failing(LOADER), method), 1)


if __name__ == "__main__":
    for name in ("RANK", "LOCAL_RANK"):
        os.environ.pop(name, None)
    unittest.main(verbosity=2)
