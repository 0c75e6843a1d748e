# SPDX-License-Identifier: Apache-2.0
"""The shapes of `replay --json` and `fit --json`. `replay_problems` and `fit_problems` list what is
wrong with one object."""

from contract.analyze import VERDICTS
from contract.kinds import COUNT, GAP, INPUT, Maybe, NUMBER, OneOf, misshapen

VERSIONS = ("2.6", "2.15")
POLICIES = VERSIONS + ("best-fit", "tlsf", "buddy", "never-reuse")
STEP = 2 << 20  # Of the sizes that `fit` tries.

REPLAY = {
    "schema": COUNT, "fragscope": str, "input": INPUT, "device": COUNT,
    "verification": Maybe({
        "verified": bool, "policy": OneOf(*VERSIONS), "operations": COUNT, "agreed": COUNT,
        "requests": COUNT, "refusals": COUNT,
        "difference": Maybe({"event": NUMBER, "operation": str, "text": str})}),
    "doubts": [str],
    "depends_on_memory": [{"kind": OneOf("survived-refusal", "empty-cache"), "count": COUNT,
                           "first_event": NUMBER}],
    "variants": [{
        "name": str, "policy": OneOf(*POLICIES), "device_total_bytes": COUNT,
        "outside_bytes": COUNT, "limit_bytes": Maybe(COUNT), "fits": bool,
        "first_failure": Maybe({
            "event": NUMBER, "asked_bytes": COUNT,
            "verdict": {"kind": OneOf(*VERDICTS), "certainty": OneOf("proven", "possible"),
                        "short_by_bytes": Maybe(COUNT), "text": str}}),
        "failures": COUNT, "served_refusals": COUNT, "cut_short": bool, "operations": COUNT,
        "peak": {"reserved_bytes": COUNT, "allocated_bytes": COUNT, "event": Maybe(NUMBER),
                 "gap": GAP},
        "driver": {"allocations": COUNT, "frees": COUNT, "retries": COUNT}}],
}

FIT = {
    "schema": COUNT, "fragscope": str, "input": INPUT, "device": COUNT, "verified": Maybe(bool),
    "doubts": [str],
    "fits": [{"name": str, "is_recorded": bool, "conf": str, "smallest_device_bytes": COUNT,
              "outside_bytes": COUNT, "islands_bytes": [COUNT], "sizes_tried": COUNT,
              "dense_until_bytes": COUNT, "sparse_until_bytes": COUNT,
              "peak_reserved_bytes": COUNT, "peak_allocated_bytes": COUNT}],
    "misfits": [str], "environment": Maybe(str),
}


def _verification(found):
    if found["verified"] != (found["difference"] is None):
        yield "verified, but it differs" if found["verified"] else "differs, but it is not said where"
    if (found["agreed"] == found["operations"]) != found["verified"]:
        yield f"{found['agreed']} of {found['operations']} operations agree"
    if found["refusals"] > found["requests"]:
        yield "more refusals than requests"


def _variant(variant):
    if variant["fits"] != (variant["first_failure"] is None):
        yield "fits does not go with its first failure"
    if variant["fits"] != (variant["failures"] == 0) or (variant["fits"] and variant["cut_short"]):
        yield f"{variant['failures']} failures, fits is {variant['fits']}"
    if variant["peak"]["allocated_bytes"] > variant["peak"]["reserved_bytes"]:
        yield "more allocated than reserved"


def replay_problems(answer):
    found = misshapen(answer, REPLAY)
    if found:
        return found
    if answer["verification"]:
        found += _verification(answer["verification"])
    for variant in answer["variants"]:
        found += [f"{variant['name']}: {problem}" for problem in _variant(variant)]
    fits = [variant["fits"] for variant in answer["variants"]]
    if fits != sorted(fits, reverse=True):
        found.append("one that fits comes behind one that does not")
    return found


def _fit(fit):
    size = fit["smallest_device_bytes"]
    if size % STEP or any(island % STEP for island in fit["islands_bytes"]):
        yield "a size is no multiple of 2 MiB"
    if any(island >= size for island in fit["islands_bytes"]):
        yield "an island is not below the smallest device"
    if not size <= fit["dense_until_bytes"] <= fit["sparse_until_bytes"]:
        yield "what was tried does not begin at the smallest device"
    if not fit["peak_allocated_bytes"] <= fit["peak_reserved_bytes"] <= size - fit["outside_bytes"]:
        yield "not allocated <= reserved <= what the device has"


def fit_problems(answer):
    found = misshapen(answer, FIT)
    if found:
        return found
    for fit in answer["fits"]:
        found += [f"{fit['name']}: {problem}" for problem in _fit(fit)]
    sizes = [fit["smallest_device_bytes"] for fit in answer["fits"]]
    if sizes != sorted(sizes):
        found.append("the least device does not come first")
    names = [fit["name"] for fit in answer["fits"]] + answer["misfits"]
    if len(names) != len(set(names)):
        found.append("settings are named twice")
    return found
