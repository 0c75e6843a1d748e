# SPDX-License-Identifier: Apache-2.0
"""One measurement for torch_bench.py, in a process of its own; prints JSON."""

import ctypes
import json
import os
import sys
import tempfile

import torch

NATIVE, OURS = 0, 1
SIZE = 4096


def load(switch):
    library = ctypes.CDLL(switch)
    library.pair_ns.restype = ctypes.c_double
    library.pair_ns.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
    return library


def put_in(shim, engine, way, stacks):
    library = ctypes.CDLL(engine)
    library.fragscope_configure.restype = ctypes.c_char_p
    for name, value in (("stacks", stacks), ("torch_version", torch.__version__)):
        problem = library.fragscope_configure(name.encode(), value.encode())
        assert problem is None, problem
    shim = ctypes.CDLL(shim)
    shim.fragscope_torch_install.restype = ctypes.c_char_p
    problem = shim.fragscope_torch_install(engine.encode(), way.encode())
    assert problem is None, problem


def history(is_on):
    if is_on:
        torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=10_000)
    else:
        torch.cuda.memory._record_memory_history(enabled=None)


def at_depth(depth, action):
    """The same with so many Python frames below it."""
    return action() if depth <= 2 else at_depth(depth - 1, action)


def dropin_pairs(switch, rounds, pairs):
    """Native, native with its history, and the drop-in, round by round."""
    samples = {"native": [], "history": [], "ours": []}
    for _ in range(rounds):
        samples["native"].append(switch.pair_ns(NATIVE, SIZE, pairs))
        samples["ours"].append(switch.pair_ns(OURS, SIZE, pairs))
        switch.use(NATIVE)
        history(True)
        samples["history"].append(switch.pair_ns(NATIVE, SIZE, pairs))
        history(False)
        switch.use(OURS)
    return samples


def attach_pairs(switch, enter, rounds, pairs):
    """A tracker cannot be taken out again: native first."""
    torch.empty(1, device="cuda")
    samples = {"native": [switch.pair_ns(NATIVE, SIZE, pairs) for _ in range(rounds)], "history": []}
    for _ in range(rounds):
        history(True)
        samples["history"].append(switch.pair_ns(NATIVE, SIZE, pairs))
        history(False)
    enter()
    torch.empty(1, device="cuda")
    switch.keep(OURS)
    samples["ours"] = [switch.pair_ns(OURS, SIZE, pairs) for _ in range(rounds)]
    return samples


def make_training():
    layers = [torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(6)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        model(torch.randn(8, 64, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def steps(switch, rounds):
    """Two trainings side by side, each on memory of its own allocator, step by step in turns."""
    import time

    trainings = {}
    for name, number in (("native", NATIVE), ("ours", OURS)):
        switch.use(number)
        trainings[name] = (number, make_training())
        for _ in range(5):
            trainings[name][1]()
    samples = {"native": [], "ours": []}
    for turn in range(rounds):
        order = list(trainings) if turn % 2 == 0 else list(reversed(trainings))
        for name in order:
            number, step = trainings[name]
            switch.use(number)
            start = time.perf_counter_ns()
            step()
            samples[name].append(time.perf_counter_ns() - start)
    return samples


def main():
    plan = json.loads(sys.argv[1])
    switch = load(plan["switch"])
    switch.keep(NATIVE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FRAGSCOPE_RING_DIR"] = folder

        def enter():
            put_in(plan["shim"], plan["engine"], plan["way"], plan["stacks"])

        if plan["way"] == "attach" and plan["what"] == "pair":
            samples = at_depth(plan["depth"], lambda: attach_pairs(switch, enter, plan["rounds"],
                                                                   plan["pairs"]))
        else:
            enter()
            switch.keep(OURS)
            torch.empty(1, device="cuda")
            if plan["what"] == "pair":
                samples = at_depth(plan["depth"], lambda: dropin_pairs(switch, plan["rounds"],
                                                                       plan["pairs"]))
            else:
                samples = steps(switch, plan["rounds"])
        print(json.dumps(samples), flush=True)
        os._exit(0)  # PyTorch may abort at its end while threads of autograd are still there.


if __name__ == "__main__":
    main()
