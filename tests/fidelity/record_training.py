# SPDX-License-Identifier: Apache-2.0
"""Writes what real training asked of PyTorch's allocator as a program for the fidelity driver.

    record_training.py FILE    (under virtual_cuda/run, with PyTorch)
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torch"))
from support import torch, train, transformer  # noqa: E402


def use_streams():
    """Tensors that go from one stream to another and back."""
    side = torch.cuda.Stream()
    for size in (1 << 20, 7 << 20, 40 << 20):
        tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
        with torch.cuda.stream(side):
            copies = [tensor.clone() for _ in range(3)]
        del tensor, copies


def program(trace):
    """The lines of a trace: a slot for each address that is in use."""
    streams, slots, spare, lines, made = {0: 0}, {}, [], [], 0
    for entry in trace:
        if entry["action"] == "alloc":
            made += not spare
            slot = spare.pop() if spare else made
            slots[entry["addr"]] = slot
            stream = streams.setdefault(entry["stream"], len(streams))
            lines.append(f"allocate {slot} {entry['size']} {stream}")
        elif entry["action"] == "free_requested" and entry["addr"] in slots:
            slot = slots.pop(entry["addr"])
            spare.append(slot)
            lines.append(f"free {slot}")
    return lines


def main():
    torch.cuda.memory._record_memory_history(context=None)
    model = transformer()
    for tokens in ((4, 128), (2, 200), (7, 64)):
        train(model, 3, tokens)
    use_streams()
    del model
    train(transformer(layers=4, width=512), 4)
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    Path(sys.argv[1]).write_text("\n".join(program(trace)) + "\n")


main()
