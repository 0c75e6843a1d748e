# SPDX-License-Identifier: Apache-2.0
"""The shapes of `stages --json`, `growth --json` and `diff --json`. `stages_problems` and its
siblings list what is wrong with one object."""

from contract.kinds import COUNT, FRAMES, GAP, INPUT, Maybe, NUMBER, OneOf, TRUST, misshapen

STAGES_OF_A_START = ("before-launch", "checkpoint-reading", "weight-placement",
                     "runtime-preparation", "readiness", "requests")
GROWTH_KINDS = ("plateau", "growth", "cache-growth", "falling", "undecided", "too-few",
                "no-repeats")
TRENDS = ("plateau", "growth", "falling", "undecided", "too-few")
BASES = ("stages", "marks", "annotations", "period", "none")
RELATIONS = ("same-program-same-settings", "same-program-other-settings",
             "other-program-same-settings", "other-program-other-settings", "cannot-be-told")

MOMENT = {"event": NUMBER, "reserved_bytes": COUNT, "allocated_bytes": COUNT,
          "active_bytes": COUNT, "requested_active_bytes": Maybe(COUNT)}
STACK = {"frames": FRAMES, "begin_bytes": COUNT, "peak_bytes": COUNT, "end_bytes": COUNT}
SLOPE = {"median": NUMBER, "low": NUMBER, "high": NUMBER}
LAYER = {"trend": OneOf(*TRENDS), "warm_up": COUNT, "slope_per_repeat": Maybe(SLOPE),
         "tolerance_bytes": COUNT, "steps": COUNT}
HEAD = {"schema": COUNT, "fragscope": str, "input": INPUT, "device": COUNT, "trust": TRUST}

STAGES = {
    **HEAD, "has_stages": bool,
    "stages": [{
        "name": str, "stage": Maybe(OneOf(*STAGES_OF_A_START)),
        "source": OneOf("program", "mark", "annotation", "none"),
        "times": COUNT, "times_not_known": COUNT, "has_end": bool, "failures": COUNT,
        "first_event": NUMBER, "last_event": NUMBER, "begin_us": Maybe(NUMBER),
        "end_us": Maybe(NUMBER), "begin": Maybe(MOMENT), "peak": Maybe(MOMENT),
        "peak_reserved_bytes": Maybe(COUNT), "end": Maybe(MOMENT),
        "temporary_bytes": Maybe(COUNT), "stays_bytes": Maybe(COUNT), "goes_bytes": Maybe(COUNT),
        "temporary": [STACK], "stays": [STACK]}],
    "marks": [{"name": str, "time_us": Maybe(NUMBER), "at": Maybe(MOMENT)}], "mark_count": COUNT,
    "failures": [{"event": NUMBER, "asked_bytes": COUNT, "stage_index": COUNT, "name": str,
                  "this_thread": bool}],
    "failure_count": COUNT, "unmatched_ends": COUNT, "gaps": COUNT,
}

GROWTH = {
    **HEAD, "kind": OneOf(*GROWTH_KINDS),
    "basis": {"kind": OneOf(*BASES), "name": Maybe(str), "overlapping": COUNT,
              "out_of_order": bool, "not_kept": COUNT,
              "period": Maybe({"frames": FRAMES, "requested_bytes": COUNT, "stream": NUMBER,
                               "allocations": float, "deviation": float, "alike": COUNT}),
              "names": [{"name": str, "kind": OneOf(*BASES), "times": COUNT}]},
    "whole_repeats": COUNT, "low": LAYER, "peak": LAYER, "reserved": LAYER,
    "growing_stacks": COUNT,
    "stacks": [{"frames": FRAMES, "first_bytes": COUNT, "last_bytes": COUNT,
                "slope_per_repeat": SLOPE}],
    "repeats": [{"name": str, "begin_event": NUMBER, "end_event": Maybe(NUMBER), "whole": bool,
                 "failures": COUNT, "low": Maybe(MOMENT), "peak": Maybe(MOMENT),
                 "end": Maybe(MOMENT), "peak_reserved_bytes": Maybe(COUNT)}],
}

CONTROL = {
    "schema": COUNT, "fragscope": str, "runs": COUNT,
    "control": [{"layer": str, "a_bytes": COUNT, "b_bytes": COUNT, "a_again_bytes": COUNT,
                 "noise_bytes": COUNT, "control_comes_back": bool, "differs": bool}],
}

SIDE = {"input": INPUT, "device": COUNT, "trust": TRUST, "before_event": NUMBER,
        "state": {"reserved_bytes": COUNT, "allocated_bytes": COUNT,
                  "requested_bytes": Maybe(COUNT), "pending_bytes": COUNT, "free_bytes": COUNT,
                  "largest_hole_bytes": COUNT, "segments": COUNT, "blocks": COUNT, "holes": COUNT,
                  "gap": GAP}}
DIFF = {
    "schema": COUNT, "fragscope": str, "relation": OneOf(*RELATIONS),
    "program": {"likeness": OneOf("same", "similar", "other", "unknown"), "basis": str,
                "a_requests": COUNT, "b_requests": COUNT, "common_requests": COUNT,
                "paired_requests": COUNT},
    "settings": OneOf("same", "other", "unknown"), "at": OneOf("oom", "peak", "end"),
    "a": SIDE, "b": SIDE,
    "holders": [{"place": str, "frames": FRAMES, "in": OneOf("a", "b", "both"), "a_bytes": COUNT,
                 "b_bytes": COUNT, "a_blocks": COUNT, "b_blocks": COUNT}], "holder_count": COUNT,
    "segments": [{"class": OneOf("small", "large"), "expandable": bool, "private": bool,
                  "a_bytes": COUNT, "b_bytes": COUNT, "a_segments": COUNT, "b_segments": COUNT}],
    "facts": [{"name": str, "is_setting": bool, "a": Maybe(str), "b": Maybe(str),
               "same": Maybe(bool)}],
}


def _stage(stage):
    known = stage["peak"] is not None
    if known != (stage["times"] > stage["times_not_known"]):
        yield "a peak does not go with the times that are known"
    if not known:
        return
    peak, begin, end = (stage[name]["allocated_bytes"] for name in ("peak", "begin", "end"))
    if peak < max(begin, end):
        yield "its peak is below an end"
    if stage["temporary_bytes"] != peak - max(begin, end):
        yield "temporary_bytes is not peak above both ends"
    if stage["peak_reserved_bytes"] < peak:
        yield "more live than reserved"
    if stage["stays_bytes"] and stage["goes_bytes"]:
        yield "memory both stays and goes"


def stages_problems(answer):
    found = misshapen(answer, STAGES)
    if found:
        return found
    for stage in answer["stages"]:
        found += [f"{stage['name']}: {problem}" for problem in _stage(stage)]
    if sum(stage["failures"] for stage in answer["stages"]) < len(answer["failures"]):
        found.append("failures that no stage has")
    for failure in answer["failures"]:
        if failure["stage_index"] >= len(answer["stages"]):
            found.append(f"a failure in stage {failure['stage_index']}")
            continue
        stage = answer["stages"][failure["stage_index"]]
        if stage["failures"] == 0 or stage["name"] != failure["name"]:
            found.append(f"the failure at event {failure['event']} is not that stage's")
        if not stage["first_event"] <= failure["event"] <= stage["last_event"]:
            found.append(f"the failure at event {failure['event']} lies outside of {stage['name']}")
    if not answer["has_stages"] and len(answer["stages"]) > 1:
        found.append("no stages, but several rows")
    return found


def growth_problems(answer):
    found = misshapen(answer, GROWTH)
    if found:
        return found
    if sum(repeat["whole"] for repeat in answer["repeats"]) != answer["whole_repeats"]:
        found.append("whole_repeats does not count them")
    if (answer["kind"] == "no-repeats") != (not answer["repeats"]):
        found.append(f"{answer['kind']} with {len(answer['repeats'])} repeats")
    for name in ("low", "peak", "reserved"):
        slope = answer[name]["slope_per_repeat"]
        if (slope is None) != (answer[name]["trend"] == "too-few"):
            found.append(f"{name}: a slope does not go with {answer[name]['trend']}")
        if slope and not slope["low"] <= slope["median"] <= slope["high"]:
            found.append(f"{name}: the median slope is not within its interval")
    if answer["stacks"] and answer["kind"] != "growth":
        found.append("stacks grow, the answer is another")
    for repeat in answer["repeats"]:
        if repeat["low"] and repeat["low"]["allocated_bytes"] > repeat["peak"]["allocated_bytes"]:
            found.append(f"{repeat['name']}: its low point is above its peak")
    return found


def control_problems(answer):
    return misshapen(answer, CONTROL)


def diff_problems(answer):
    found = misshapen(answer, DIFF)
    if found:
        return found
    program, settings = answer["program"]["likeness"], answer["settings"]
    told = program in ("same", "other") and settings != "unknown"
    expected = f"{program}-program-{settings}-settings" if told else "cannot-be-told"
    if answer["relation"] != expected:
        found.append(f"{answer['relation']}, though it is {expected}")
    for name in ("a", "b"):
        state = answer[name]["state"]
        if state["requested_bytes"] is not None and \
                sum(state["gap"].values()) != state["reserved_bytes"] - state["requested_bytes"]:
            found.append(f"{name}: the gap does not sum to reserved - requested")
        if sum(each[f"{name}_bytes"] for each in answer["segments"]) != state["reserved_bytes"]:
            found.append(f"{name}: segments do not sum to reserved")
    for fact in answer["facts"]:
        same = None if None in (fact["a"], fact["b"]) else fact["a"] == fact["b"]
        if fact["same"] != same:
            found.append(f"{fact['name']}: same is {fact['same']}")
    return found
