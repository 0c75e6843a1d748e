# SPDX-License-Identifier: Apache-2.0
"""What the tests on real PyTorch share: the control functions of virtual CUDA, and a small model."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import torch

MIB = 1 << 20
GIB = 1 << 30
EXPANDABLE = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")

_library = ctypes.CDLL(None)
for _name in ("total_bytes", "free_bytes", "used_bytes", "call_count", "now_ns"):
    getattr(_library, f"fragscope_vc_{_name}").restype = ctypes.c_ulonglong


def fail(kind, nth=1, onward=False):
    """The nth call of the kind from now on fails."""
    code = _library.fragscope_vc_fail(kind.encode(), ctypes.c_ulonglong(nth), int(onward))
    assert code == 0, kind


def clear_faults(kind):
    assert _library.fragscope_vc_clear_faults(kind.encode()) == 0, kind


def call_count(kind):
    return _library.fragscope_vc_call_count(kind.encode())


def set_neighbour(device, size):
    assert _library.fragscope_vc_set_neighbour(device, ctypes.c_ulonglong(size)) == 0


def hold(stream):
    """What the stream gets from now on stays unfinished."""
    assert _library.fragscope_vc_hold_stream(ctypes.c_void_p(stream.cuda_stream)) == 0


def release(stream):
    assert _library.fragscope_vc_release_stream(ctypes.c_void_p(stream.cuda_stream)) == 0


def used_bytes(device=0):
    return _library.fragscope_vc_used_bytes(device)


def free_bytes(device=0):
    return _library.fragscope_vc_free_bytes(device)


def total_bytes(device=0):
    return _library.fragscope_vc_total_bytes(device)


def version():
    """PyTorch's version as a pair of numbers."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def allocate(size, device="cuda"):
    return torch.empty(size, dtype=torch.uint8, device=device)


def fresh():
    """An empty allocator, with its peaks forgotten."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def run_alone(program, **environment):
    """Runs lines of Python in a process of their own; what it printed, and how it ended."""
    return subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parent, check=False,
                          capture_output=True, text=True, env={**os.environ, **environment})


class Block(torch.nn.Module):
    """A transformer layer without any fused kernel, so that each tensor is one allocation."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = torch.nn.LayerNorm(width)
        self.norm2 = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

    def attend(self, x, past=None):
        """The layer's output, and the keys and values that it looked at."""
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        mixed = torch.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x)), (k, v)

    def forward(self, x):
        return self.attend(x)[0]


def transformer(layers=12, width=256, vocabulary=8192):
    return torch.nn.Sequential(
        torch.nn.Embedding(vocabulary, width),
        *[Block(width, 4) for _ in range(layers)],
        torch.nn.Linear(width, vocabulary)).cuda()


def train(model, steps, tokens=(4, 128), vocabulary=8192):
    """Forward, backward and AdamW."""
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        x = torch.randint(0, vocabulary, tokens, device="cuda")
        loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()
