#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a large snapshot for timing: a training loop run through the fixtures' allocator model.

usage: make_snapshot.py OUT [--events N] [--seed S] [--expandable] [--depth D]

The same arguments give the same bytes. A transformer of 36 layers trains on an 80 GiB card with
a sequence length that changes from step to step; the last batch is too long and fails, its
activations are freed while the exception unwinds, then the snapshot is taken. Everything since
the first weight is in the trace, so that undoing it must end with nothing held. Written by
Python's C pickler, protocol 4, with the keys of PyTorch 2.15.

D is the mean depth of an allocation's stack; a free's is half of that, as in real files. Those of
the same kind (20,000 entries each) have 75 to 95 bytes an entry with short Python stacks (3 to 7
frames an entry) and 160 to 200 with C++ frames (32 to 36 an entry); 150 to 190 distinct stacks,
15 to 25 % of the allocations small, 900 to 1200 live blocks, 400 to 1400 segments, half of the
allocations between 4 and 40 MiB. The default lies between the two kinds: 13 frames and 123 bytes an
entry, 136 stacks, 30 % small, 1081 live blocks, 728 segments.
"""
import argparse
import collections
import gc
import os
import pickle
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures",
                                "record"))
from caching_allocator import OutOfMemory  # noqa: E402
from card import Card  # noqa: E402
from snapshot_writer import Process  # noqa: E402
from stacks import job_frame, torch_frame, frame  # noqa: E402

MIB = 1 << 20
GIB = 1 << 30
CARD = 81_559 * MIB
LAYERS, HIDDEN, HEADS, BATCH, VOCABULARY = 36, 2048, 16, 8, 50_304
TOO_LONG = 4096                  # the sequence length of the batch that does not fit

# name, bytes for one token, kept until backward
FORWARD = (
    ("input_norm", 2 * HIDDEN, True), ("input_norm_mean", 4, True), ("input_norm_rstd", 4, True),
    ("qkv", 6 * HIDDEN, True), ("query_rotary", 2 * HIDDEN, True), ("key_rotary", 2 * HIDDEN, True),
    ("attention", 2 * HIDDEN, True), ("log_sum_exp", 4 * HEADS, True),
    ("projection", 2 * HIDDEN, False), ("dropout_mask", HIDDEN, True),
    ("residual", 2 * HIDDEN, True), ("post_norm", 2 * HIDDEN, True), ("post_norm_mean", 4, True),
    ("post_norm_rstd", 4, True), ("fc1", 8 * HIDDEN, True), ("gelu", 8 * HIDDEN, True),
    ("fc2", 2 * HIDDEN, False), ("mlp_dropout_mask", HIDDEN, True), ("output", 2 * HIDDEN, True))
# name, elements
PARAMETERS = (
    ("qkv.weight", 3 * HIDDEN * HIDDEN), ("qkv.bias", 3 * HIDDEN),
    ("projection.weight", HIDDEN * HIDDEN), ("projection.bias", HIDDEN),
    ("fc1.weight", 4 * HIDDEN * HIDDEN), ("fc1.bias", 4 * HIDDEN),
    ("fc2.weight", 4 * HIDDEN * HIDDEN), ("fc2.bias", HIDDEN),
    ("input_norm.weight", HIDDEN), ("post_norm.weight", HIDDEN))

RUNTIME = (frame("torch::unwind::unwind()", "??", 0),
           frame("torch::CapturedTraceback::gather(bool, bool, bool)", "??", 0),
           frame("torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp",
                 0))
MALLOC = RUNTIME + (
    frame("at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*, "
          "c10::DispatchKeySet, c10::ScalarType)", "??", 0),
    frame("at::detail::empty_cuda(c10::ArrayRef<long>, c10::TensorOptions const&)", "??", 0))
FREE = RUNTIME + (frame("c10::StorageImpl::~StorageImpl()", "??", 0),
                  frame("c10::TensorImpl::~TensorImpl()", "TensorImpl.cpp", 0))
MODULE = (job_frame("<module>", "pretrain.py", 402),)
PHASES = {
    "load": (job_frame("build_model", "pretrain.py", 121), job_frame("main", "pretrain.py", 356)),
    "forward": (job_frame("forward_step", "pretrain.py", 214),
                job_frame("train_step", "pretrain.py", 251), job_frame("main", "pretrain.py", 377)),
    "backward": (torch_frame("_engine_run_backward", "autograd/graph.py", 841),
                 torch_frame("backward", "autograd/__init__.py", 364),
                 torch_frame("backward", "_tensor.py", 647),
                 job_frame("train_step", "pretrain.py", 256),
                 job_frame("main", "pretrain.py", 377)),
    "optimizer": (torch_frame("_multi_tensor_adamw", "optim/adamw.py", 611),
                  torch_frame("adamw", "optim/adamw.py", 882),
                  torch_frame("step", "optim/adamw.py", 243),
                  job_frame("train_step", "pretrain.py", 263),
                  job_frame("main", "pretrain.py", 377))}


class Stacks:
    """One stack for each (operation, phase, alloc or free): an allocation's about `depth` frames
    deep, a free's half of that."""

    def __init__(self, depth):
        self.depth = depth
        self.made = {}

    def get(self, name, phase, freed=False):
        key = (name, phase, freed)
        if key not in self.made:
            self.made[key] = self._make(name, phase, freed)
        return self.made[key]

    def _make(self, name, phase, freed):
        """Calls of nested modules between the operation and the phase fill the depth."""
        mark = sum(ord(letter) for letter in name + phase)
        depth = max(3, (self.depth // 2 if freed else self.depth) * (80 + mark % 41) // 100)
        operation = name.replace(".", "_")
        inner = (FREE if freed else MALLOC) + (
            frame(f"at::native::{operation}(at::Tensor const&)", f"{operation}.cpp", 0),)
        outer = PHASES[phase] + MODULE
        stack, level = list(inner), 0
        while len(stack) + len(outer) < depth:
            path = f"model/{operation if level == 0 else 'block'}.py"
            stack += (job_frame("forward", path, 40 + mark % 97 + 13 * level),
                      torch_frame("_call_impl", "nn/modules/module.py", 1789),
                      torch_frame("_wrapped_call_impl", "nn/modules/module.py", 1778))
            level += 1
        return tuple(stack[:max(1, depth - len(outer))]) + outer


class Training:
    """The program: what it allocates and frees, in order."""

    def __init__(self, process, stacks):
        self.process = process
        self.cuda = process.cuda[0]
        self.stacks = stacks
        self.gradients = []
        self.live = []           # what an exception would free while it unwinds

    def malloc(self, size, name, phase):
        return self.cuda.malloc(size, stack=self.stacks.get(name, phase))

    def free(self, block, name, phase):
        self.cuda.free(block, stack=self.stacks.get(name, phase, True))

    def load(self):
        self.malloc(2 * VOCABULARY * HIDDEN, "embedding.weight", "load")
        for _ in range(LAYERS):
            for name, elements in PARAMETERS:
                self.malloc(2 * elements, name, "load")
        for state in ("exp_avg", "exp_avg_sq"):
            for _ in range(LAYERS):
                for name, elements in PARAMETERS:
                    self.malloc(4 * elements, state + "." + name, "optimizer")

    def forward(self, tokens):
        saved = self.live
        saved.append((self.malloc(8 * tokens, "tokens", "forward"), "tokens"))
        saved.append((self.malloc(2 * HIDDEN * tokens, "embedding", "forward"), "embedding"))
        for layer in range(LAYERS):
            passing = None
            for name, unit, kept in FORWARD:
                name += "_local" if layer % 2 else ""      # every other layer attends locally
                block = self.malloc(unit * tokens, name, "forward")
                if passing is not None:
                    self.free(passing, "passing", "forward")
                    passing = None
                if kept:
                    saved.append((block, name))
                else:
                    passing = block
        for name in ("logits", "log_softmax"):     # the head runs on an eighth of the tokens
            saved.append((self.malloc(2 * VOCABULARY * tokens // 8, name, "forward"), name))
        saved.append((self.malloc(4, "loss", "forward"), "loss"))

    def backward(self, tokens):
        above = self.malloc(2 * HIDDEN * tokens, "loss", "backward")
        parameters = iter(reversed(PARAMETERS * LAYERS))
        for index in range(len(self.live)):
            block, name = self.live.pop()
            gradient = None
            if block.requested >= 2 * HIDDEN * tokens and name not in ("logits", "log_softmax"):
                gradient = self.malloc(block.requested, name, "backward")
            if index % 2 == 0:
                parameter = next(parameters, None)
                if parameter is not None:
                    size = 2 * parameter[1]
                    self.gradients.append(self.malloc(size, parameter[0], "backward"))
                    if size > MIB and index % 4 == 0:      # split reduction in scratch memory
                        scratch = self.malloc(8 * MIB, "workspace", "backward")
                        self.free(scratch, "workspace", "backward")
            if gradient is not None:
                self.free(above, "gradient", "backward")
                above = gradient
            self.free(block, name, "backward")
        self.free(above, "gradient", "backward")
        for name, elements in parameters:
            self.gradients.append(self.malloc(2 * elements, name, "backward"))

    def optimizer_step(self):
        self.process.annotation("Optimizer.step#AdamW.step", "START")
        norms = [self.malloc(4, "norm", "optimizer") for _ in range(0, len(self.gradients), 4)]
        total = self.malloc(4, "total_norm", "optimizer")
        for block in norms + [total]:
            self.free(block, "norm", "optimizer")
        roots = []
        for gradient in self.gradients:
            if gradient.requested > MIB:
                roots.append(self.malloc(2 * gradient.requested, "sqrt", "optimizer"))
            if len(roots) == 8:
                for block in roots:
                    self.free(block, "sqrt", "optimizer")
                roots = []
        for block in roots:
            self.free(block, "sqrt", "optimizer")
        self.process.annotation("Optimizer.step#AdamW.step", "END")
        for gradient in self.gradients:
            self.free(gradient, "zero_grad", "optimizer")
        self.gradients = []

    def step(self, length):
        tokens = BATCH * length
        self.forward(tokens)
        self.backward(tokens)
        self.optimizer_step()
        self.process.clock.now_us += 50_000

    def fail(self):
        """The last batch is too long; its activations go while the exception unwinds."""
        try:
            self.forward(BATCH * TOO_LONG)
        except OutOfMemory:
            for block, name in reversed(self.live):
                self.free(block, name, "forward")
            self.live = []
            return
        raise AssertionError("the long batch fits")


def run(events, seed, expandable, depth):
    chance = random.Random(seed)
    conf = "expandable_segments:True" if expandable else ""
    process = Process([Card(CARD)], "2.15", conf)
    process.record()
    training = Training(process, Stacks(depth))
    training.load()
    trace, last_step = training.cuda.trace, 0
    while len(trace) + last_step < events:
        before = len(trace)
        training.step(32 * min(64, 8 + int(chance.expovariate(1 / 20))))
        last_step = max(last_step, len(trace) - before)
    training.fail()
    return process, training


def figures(snapshot, process, size):
    trace = snapshot["device_traces"][0]
    count = len(trace)
    actions = collections.Counter(entry["action"] for entry in trace)
    sizes = sorted(entry["size"] for entry in trace if entry["action"] == "alloc")
    frames = sum(len(entry["frames"]) for entry in trace)
    stacks = {tuple(map(id, entry["frames"])) for entry in trace}
    states = collections.Counter(block["state"] for segment in snapshot["segments"]
                                 for block in segment["blocks"])
    small = sum(size <= MIB for size in sizes) / len(sizes)
    reserved = sum(segment["total_size"] for segment in snapshot["segments"])
    print(f"{count} entries, {size} bytes, {size / count:.1f} bytes an entry; "
          f"{frames / count:.1f} frames an entry, {len(stacks)} distinct stacks")
    print("actions: " + ", ".join(f"{name} {n}" for name, n in actions.most_common()))
    print(f"{small:.0%} of the allocations small; size at 10, 50, 90 %: "
          + ", ".join(str(sizes[int(part * (len(sizes) - 1))]) for part in (0.1, 0.5, 0.9))
          + f"; {len(set(sizes))} distinct")
    print(f"at the end: {len(snapshot['segments'])} segments, {reserved / GIB:.1f} GiB; blocks: "
          + ", ".join(f"{name} {n}" for name, n in states.items())
          + f"; device free {process.cuda[0].card.free / GIB:.1f} GiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--expandable", action="store_true")
    parser.add_argument("--depth", type=int, default=20)
    arguments = parser.parse_args()
    gc.disable()                 # nothing here is cyclic garbage; collecting only costs time
    start = time.monotonic()
    process, _ = run(arguments.events, arguments.seed, arguments.expandable, arguments.depth)
    snapshot = process.snapshot()
    with open(arguments.out, "wb") as stream:
        pickle.dump(snapshot, stream, protocol=4)
    seconds = time.monotonic() - start
    figures(snapshot, process, os.path.getsize(arguments.out))
    print(f"made in {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
