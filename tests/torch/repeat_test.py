# SPDX-License-Identifier: Apache-2.0
"""The same program twice has the same addresses, sizes and order of events."""

import hashlib
import os
import subprocess
import sys
import unittest

import support
import torch


def fingerprint():
    """Everything in a recorded training run that does not depend on the clock."""
    torch.manual_seed(1)
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    support.train(support.transformer(layers=3), 3)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        kept = [support.allocate(size << 12) for size in range(1, 400, 7)]
    del kept[::3]
    snapshot = torch.cuda.memory._snapshot()
    lines = [f"{e['action']} {e['addr']:x} {e['size']} {e['stream']}"
             for e in snapshot["device_traces"][0] if "addr" in e]
    for segment in snapshot["segments"]:
        blocks = [(block["size"], block["state"]) for block in segment["blocks"]]
        lines.append(f"{segment['address']:x} {segment['total_size']} {segment['stream']} {blocks}")
    return f"{len(lines)} {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"


class Repeats(unittest.TestCase):
    def test_two_runs_are_identical(self):
        runs = [subprocess.run([sys.executable, __file__, "--print"], check=True,
                               capture_output=True, text=True,
                               env={**os.environ, "PYTHONHASHSEED": seed}).stdout
                for seed in ("1", "2")]

        self.assertEqual(runs[0], runs[1])
        self.assertGreater(int(runs[0].split()[0]), 1000)


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        print(fingerprint())
    else:
        unittest.main()
