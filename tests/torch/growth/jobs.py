# SPDX-License-Identifier: Apache-2.0
"""Jobs for growth_test.py: `jobs.py NAME [FILE]`. Small servers that say what they do, or do not."""

import inspect
import sys

import fragscope
import torch

MIB = 1 << 20
WIDTH = 1024


def model(layers=4):
    return torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())
          for _ in range(layers)]).cuda()


@torch.no_grad()
def serve(server, tokens):
    x = torch.zeros(tokens, WIDTH, device="cuda")
    return server(x)


def plateau():
    """Ten equal requests, then short and long ones in turn."""
    server = model()
    for number in range(1, 19):
        fragscope.mark(f"request {number}")
        tokens = 512 if number <= 10 else 256 if number % 2 else 1024
        answer = serve(server, tokens)
        del answer
    fragscope.mark("done")


def leak():
    """A list keeps an answer of each request; another one is bounded."""
    server = model()
    kept = []
    recent = []
    for number in range(1, 13):
        with fragscope.stage(f"request {number}"):
            answer = serve(server, 512)
            kept.append(answer[:64].clone())  # leaks, marked
            recent.append(answer[:32].clone())  # bounded
            del answer, recent[:-2]


def unmarked_leak():
    server = model()
    kept = []
    for _ in range(12):
        answer = serve(server, 512)
        kept.append(answer[:64].clone())  # leaks
        del answer


def growing_cache():
    """Each request asks for a larger piece than all before, which no hole serves; nothing stays."""
    server = model()
    for number in range(1, 13):
        with fragscope.stage(f"request {number}"):
            answer = serve(server, 512)
            piece = torch.empty(number * 24 * MIB, dtype=torch.uint8, device="cuda")
            del answer, piece


def start():
    """Loads a checkpoint, converts it on the card, prepares and serves; then a request is too large."""
    with fragscope.stage("checkpoint reading"):
        checkpoint = {f"layer {i}": torch.zeros(2048, 2048) for i in range(8)}
    with fragscope.stage("weight placement"):
        placed = {name: tensor.cuda() for name, tensor in checkpoint.items()}
        weights = {name: tensor.to(torch.bfloat16) for name, tensor in placed.items()}  # converts
        del placed
    with fragscope.stage("runtime preparation"):
        workspace = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
    fragscope.mark("ready")
    with fragscope.stage("requests"):
        for number in range(1, 7):
            with fragscope.stage(f"request {number}"):
                torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")
        try:
            torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            pass
    return weights, workspace


def annotated(snapshot):
    """The same with PyTorch's own history and annotations, into a snapshot."""
    record = torch.cuda.memory._record_memory_history
    # Before PyTorch 2.7 annotations are recorded anyhow.
    implementation = torch.cuda.memory._record_memory_history_impl
    has_option = "global_record_annotations" in inspect.signature(implementation).parameters
    record(max_entries=10_000, stacks="python", **({"global_record_annotations": True} if has_option else {}))
    scope = torch.profiler.record_function
    placed = torch.zeros(16 * MIB, device="cuda")
    with scope("convert"):
        weights = placed.to(torch.bfloat16)
        del placed
    for number in range(8):
        with scope(f"serve {number}"):
            torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")
    torch.cuda.memory._dump_snapshot(snapshot)
    return weights


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
