#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our ways into PyTorch beside its own allocator, on virtual CUDA.

    torch_bench.py --torch 2.15 --libraries build/dev/virtual_cuda \
        --engine build/release/allocator/plugin/libfragscope_alloc.so [--smoke]

A pair is a request of 4 KiB and its free, from C++, served from the cache; ratios and differences are of
samples that were taken in turns in one process, but for attach, which cannot be taken out again and comes
second. A step is one of a transformer in training, two of them side by side, in turns.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SKIPPED = 77  # What ctest takes for a skipped test.


def environment_of(version):
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "fragscope" / f"torch-{version}"
    if not (folder / "complete").exists():
        print(f"SKIPPED: no PyTorch in {folder}; scripts/torch_env.sh {version} makes it")
        sys.exit(SKIPPED)
    return folder


def on_virtual_cuda(arguments, *program):
    command = [sys.executable, ROOT / "virtual_cuda" / "run", "--libraries", arguments.libraries,
               "--memory", "24GiB", "--", environment_of(arguments.torch) / "bin" / "python", *program]
    done = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, program))}\n{done.stderr}")
    return done.stdout.splitlines()[-1]


def build_switch(arguments, folder):
    torch = next(environment_of(arguments.torch).glob("lib/python3*/site-packages/torch"))
    library = folder / "libswitch.so"
    subprocess.run(
        [os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-fPIC", "-shared", "-w",
         f"-D_GLIBCXX_USE_CXX11_ABI={int(arguments.torch != '2.6')}",
         "-isystem", torch / "include", "-isystem", arguments.cuda_include, HERE / "switch.cpp",
         "-o", library, f"-L{torch / 'lib'}", "-lc10_cuda", "-lc10"], check=True)
    return library


def interval(samples, reference):
    """The median of paired ratios with its 95 % interval, by resampling."""
    ratios = [one / other for one, other in zip(samples, reference)]
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), medians[50], medians[1949]


def shown(name, ns):
    return f"{name} {statistics.median(ns):.0f} ns"


def pairs(arguments, plan, goal, way, stacks="off", depth=2):
    samples = json.loads(on_virtual_cuda(
        arguments, HERE / "measure.py",
        json.dumps({**plan, "what": "pair", "way": way, "stacks": stacks, "depth": depth})))
    native, history, ours = (samples[key] for key in ("native", "history", "ours"))
    middle, low, high = interval(ours, native)
    adds = [one - other for one, other in zip(ours, native)]
    theirs = [one - other for one, other in zip(history, native)]
    print(f"pair, {way}, stacks {stacks}, depth {depth}: {shown('native', native)}, "
          f"{shown('with its history', history)}, {shown('ours', ours)}")
    print(f"  ours / native {middle:.3f} [{low:.3f}, {high:.3f}]; ours adds "
          f"{statistics.median(adds):.0f} ns, history {statistics.median(theirs):.0f} ns "
          f"({goal})", flush=True)


def steps(arguments, plan, way):
    samples = json.loads(on_virtual_cuda(
        arguments, HERE / "measure.py",
        json.dumps({**plan, "what": "step", "way": way, "stacks": "off", "depth": 2})))
    middle, low, high = interval(samples["ours"], samples["native"])
    print(f"training step, {way}: native {statistics.median(samples['native']) / 1e6:.2f} ms, "
          f"ours / native {middle:.4f} [{low:.4f}, {high:.4f}] (aim: upper end at most 1.01)", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Our ways into PyTorch beside its own allocator.")
    parser.add_argument("--torch", default="2.15")
    parser.add_argument("--libraries", required=True, type=Path)
    parser.add_argument("--engine", required=True, type=Path)
    parser.add_argument("--cuda-include", default=Path("/usr/local/cuda/include"), type=Path)
    parser.add_argument("--work", default=ROOT / "build" / "torch_bench", type=Path)
    parser.add_argument("--smoke", action="store_true", help="a moment of each, to see that it runs")
    arguments = parser.parse_args()

    arguments.work.mkdir(parents=True, exist_ok=True)
    shim = on_virtual_cuda(arguments, ROOT / "allocator" / "python" / "fragscope" / "shim.py", ROOT,
                           arguments.work / arguments.torch)
    plan = {"switch": str(build_switch(arguments, arguments.work)), "shim": shim,
            "engine": str(arguments.engine.resolve()),
            "rounds": 3 if arguments.smoke else 60, "pairs": 100 if arguments.smoke else 3000}
    pairs(arguments, plan, "aim: ratio at most 0.65", "dropin")
    pairs(arguments, plan, "aim: at most half of what history adds", "dropin", "python", 20)
    pairs(arguments, plan, "aim: less than history adds, 110 ns", "attach")
    steps(arguments, {**plan, "rounds": 5 if arguments.smoke else 300}, "dropin")


if __name__ == "__main__":
    main()
