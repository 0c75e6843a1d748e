# SPDX-License-Identifier: Apache-2.0
"""What `analyze --json` must say of the recordings of real PyTorch, in the form of test_answers.py. The
numbers, in MiB, are worked out beside the programs in fixtures/torch/programs."""

BYTES_512 = 512 / (1 << 20)


def _log(recording):
    return ("--log", f"fixtures/torch/{recording}.log")


# recording, options, then kind, certainty, rung and more of what is checked.
TORCH_VERDICTS = [
    ("torch/fragmented", (), {
        "kind": "fragmented", "rung": 6, "size": 2040, "need": 2040, "free": 142, "home": 16064,
        "home_holes": 16, "hole": 1008, "window": 2048, "pinned": 40, "pin": "train.py:22"}),
    ("torch/scattered", (), {
        "kind": "scattered", "rung": 7, "size": 2048, "need": 2048, "free": 1026, "home": 600,
        "free_in_all": 2402 - BYTES_512}),
    ("torch/spurious", (), {
        "kind": "servable", "rung": 1, "size": 1300, "need": 1300, "hole": 1400, "free": 1102}),
    ("torch/stranded_by_stream", (), {
        "kind": "stranded", "by": ["stream"], "rung": 5, "size": 1536, "need": 1536, "free": 654}),
    ("torch/stranded_by_class", (), {
        "kind": "stranded", "by": ["class"], "rung": 5, "also": [], "size": 1, "need": 2, "free": 0,
        "free_in_all": 4000}),
    ("torch/stranded_by_mempool", (), {
        "kind": "stranded", "by": ["pool"], "rung": 5, "size": 2560, "need": 2560, "free": 2262}),
    ("torch/stranded_by_graph", (), {
        "kind": "stranded", "by": ["stream", "pool"], "rung": 5, "size": 2560, "need": 2560,
        "free": 2198}),
    ("torch/stranded_by_pending", (), {
        "kind": "stranded", "by": ["pending"], "rung": 5, "pool": [1, 0], "size": 1792,
        "need": 1792, "free": 1102, "pending": 2048}),
    ("torch/stranded_by_oversize", (), {
        "kind": "stranded", "by": ["oversize"], "rung": 5, "pool": [1, 0], "size": 448,
        "need": 460, "free": 354, "hole": 3080}),
    ("torch/stranded_by_expandable", (), {
        "kind": "stranded", "by": ["expandable"], "rung": 5, "also": ["capacity-pressure"],
        "size": 5, "need": 20, "free": 14, "hole": 18}),
    ("torch/cached", ("--request", "14GiB", "--device-free", "9358MiB"), {
        "kind": "releasable", "rung": 3, "need": 14336, "free": 9358, "releasable": 6144}),
    ("torch/cached", ("--request", "14GiB"), {
        "kind": "unknown", "certainty": "possible", "missing": ("device_free", 14336)}),
    ("torch/releasable_in_capture", (), {
        "kind": "releasable", "rung": 3, "pool": [1, 0], "size": 7168, "need": 7168, "free": 4238,
        "releasable": 8192}),
    ("torch/pending", ("--request", "14GiB", "--device-free", "11406MiB"), {
        "kind": "releasable", "rung": 3, "free": 11406, "pending": 4096, "releasable": 0}),
    ("torch/pending_in_a_segment", ("--request", "2GiB", "--device-free", "142MiB"), {
        "kind": "stranded", "by": ["pending"], "rung": 5, "need": 2048, "pending": 3072}),
    ("torch/conversion", ("--request", "16GiB", "--device-free", "4496MiB"), {
        "kind": "releasable", "rung": 3, "need": 16384, "releasable": 12800}),
    ("torch/fragmented_expandable", ("--request", "2008MiB"), {
        "kind": "unknown", "certainty": "possible", "size": 2008, "need": 1980}),
    ("torch/conversion_fails", (), {
        "kind": "capacity", "short": 104, "also": ["capacity-pressure"], "need": 200, "free": 96}),
    ("torch/growing_cache", (), {
        "kind": "capacity", "short": 16, "also": ["capacity-pressure"], "need": 1696,
        "free": 1680}),
    ("torch/batch_finder", _log("batch_finder"), {"kind": "capacity", "need": 512, "also": []}),
    ("torch/full_card", (), {
        "kind": "capacity", "short": 880 + BYTES_512, "also": ["capacity-pressure"], "need": 2048,
        "free": 1166}),
    ("torch/rounding", (), {
        "kind": "capacity", "short": 880 + BYTES_512, "also": ["rounding", "capacity-pressure"],
        "size": 1536, "need": 1536, "free": 654, "rounding": 6540 + 508 / (1 << 20)}),
    ("torch/limit", _log("limit"), {
        "kind": "limit", "rung": 4, "reserved": 8194, "need": 4608, "free": 15502}),
    ("torch/limit", (), {"kind": "not-explained", "rung": 2, "need": 4608, "free": 15502}),
    ("torch/limit_in_settings", _log("limit_in_settings"), {
        "kind": "limit", "rung": 4, "reserved": 4098, "need": 2560, "free": 19598}),
    ("torch/limit_in_settings", (), {
        "kind": "limit", "certainty": "possible", "rung": 4, "missing": ("limit", 6658)}),
    ("torch/refused_by_the_driver", (), {
        "kind": "not-explained", "rung": 2, "need": 4096, "free": 15502}),
    *[(f"torch/{name}", _log(name), {"kind": "external", "rung": 8, "need": 4096, "free": 1382})
      for name in ("external_process", "external_runtime")],
    *[(f"torch/{name}", (), {
        "kind": "capacity", "short": 2712 + BYTES_512, "unknown_rungs": [8, 9]})
      for name in ("external_process", "external_runtime")],
    ("torch/impossible", _log("impossible"), {"kind": "impossible", "need": 32768, "free": 19598}),
    ("torch/impossible", (), {"kind": "capacity", "short": 13168 + BYTES_512}),
]

# recording, device, then MiB at the end, and the peak: MiB and event.
TORCH_STATES = [
    ("torch/fragmented_expandable", 0, {"allocated": 7168 + 320 + 2040 + BYTES_512},
     (7168 + 16384 + BYTES_512, 45)),
    ("torch/conversion", 0, {"allocated": 6400, "releasable": 12800}, (19200, 127)),
    ("torch/pending", 0, {"allocated": 8192 + BYTES_512, "pending": 4096, "releasable": 0},
     (9216 + BYTES_512, 35)),
]
