#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a large log for timing: what training and serving jobs print, hour after hour.

usage: make_log.py OUT --kind KIND [--megabytes N] [--seed S]

The same arguments give the same bytes. Lines of loggers, progress bars, JSON records, tables and
warnings alternate; numbers and times change from line to line. Sixty-four blocks of 64 KiB are
drawn and then repeated in a random order, which a search cannot notice and which writes a gigabyte
in a second. The kinds:

  quiet    no line holds anything that `fragscope explain` looks for
  serving  one line in nine is an access-log line, which tells that a server answers
  failing  as quiet; every four megabytes four ranks print a traceback of some twenty lines and an
           out-of-memory message with numbers of its own

Prints the number of messages written.
"""
import argparse
import random

BLOCK_BYTES = 64 << 10
BLOCKS = 64
SPACING = 4 << 20


def ordinary_line(draw, second, serving):
    clock = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
    number = draw.randrange
    if serving and number(9) == 0:
        return (f'INFO:     10.4.{number(250)}.{number(250)}:{number(30000, 60000)} - '
                f'"POST /v1/chat/completions HTTP/1.1" 200 OK\n')
    return draw.choice((
        lambda: f"2026-03-02 {clock},{number(1000):03} INFO trainer.py:214] step {number(90000)} "
                f"loss {draw.uniform(1, 4):.4f} grad_norm {draw.uniform(0, 2):.3f} "
                f"lr {draw.uniform(1, 9):.2e} tokens/s {number(9000, 30000)}",
        lambda: f"Epoch {number(40)}:  {number(100):2}%|{'#' * number(10):10}| "
                f"{number(5000)}/5004 [{number(59)}:{number(60):02}<{number(59)}:{number(60):02}, "
                f"{draw.uniform(1, 9):.2f}it/s, v_num={number(9)}, loss={draw.uniform(1, 4):.3f}]",
        lambda: f'{{"time": "2026-03-02T{clock}Z", "level": "info", "module": "data.reader", '
                f'"shard": {number(4096)}, "rows": {number(100000)}, '
                f'"msg": "shard read and shuffled"}}',
        lambda: f"[rank{number(8)}]: 2026-03-02 {clock} eval accuracy {draw.random():.4f} "
                f"perplexity {draw.uniform(5, 30):.3f} over {number(20000)} samples",
        lambda: f"    | {number(5000):>6} | {draw.uniform(0, 1):8.5f} | {draw.uniform(0, 1):8.5f} "
                f"| {number(100):>3} % |",
        lambda: f"/opt/app/site-packages/data/collate.py:{number(900)}: UserWarning: padding a "
                f"batch of {number(64)} sequences to {number(4096)} tokens",
        lambda: f"  {draw.choice(('model', 'head', 'embed'))}.layers.{number(80)}.weight: "
                f"mean {draw.uniform(-1, 1):.6f} std {draw.uniform(0, 1):.6f}",
    ))() + "\n"


def block(draw, serving):
    lines, size, second = [], 0, draw.randrange(86400)
    while size < BLOCK_BYTES:
        line = ordinary_line(draw, second, serving)
        lines.append(line)
        size += len(line.encode())
        second += draw.randrange(2)
    return "".join(lines).encode()


def failure(draw, index):
    """One failure as four ranks print it; the figures are its own."""
    request = draw.randrange(20, 9000) * 2 / 100
    free = draw.uniform(0.01, request)
    allocated = 70 + index % 500 / 100
    gap = draw.uniform(0.1, 8)
    lines = []
    for rank in range(4):
        prefix = f"[rank{rank}]: "
        lines.append(prefix + "Traceback (most recent call last):")
        for depth in range(10):
            lines.append(f'{prefix}  File "/opt/app/model/part_{depth}.py", line '
                         f"{draw.randrange(900)}, in forward")
            lines.append(f"{prefix}    hidden = self.part_{depth}(hidden, mask)")
        lines.append(
            f"{prefix}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
            f"{request:.2f} GiB. GPU {rank} has a total capacity of 79.25 GiB of which "
            f"{free:.2f} GiB is free. Including non-PyTorch memory, this process has "
            f"{79.25 - free:.2f} GiB memory in use. Of the allocated memory {allocated:.2f} GiB is "
            f"allocated by PyTorch, and {gap:.2f} GiB is reserved by PyTorch but unallocated. If "
            f"reserved but unallocated memory is large try setting "
            f"PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.")
    return ("\n".join(lines) + "\n").encode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--kind", choices=("quiet", "serving", "failing"), required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    draw = random.Random(args.seed)
    blocks = [block(draw, args.kind == "serving") for _ in range(BLOCKS)]
    written = failures = 0
    with open(args.out, "wb") as out:
        while written < args.megabytes * 1_000_000:
            if args.kind == "failing" and written >= failures * SPACING:
                written += out.write(failure(draw, failures))
                failures += 1
            written += out.write(draw.choice(blocks))
    print(failures * 4)


if __name__ == "__main__":
    main()
