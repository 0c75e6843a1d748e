# SPDX-License-Identifier: Apache-2.0
"""The shape of `analyze --json`, as the contract gives it. `problems` lists what is wrong with one
object."""

from contract.kinds import COUNT, FRAMES, GAP, Maybe, NUMBER, OneOf, POOL, misshapen

VERDICTS = ("servable", "not-explained", "releasable", "limit", "stranded", "fragmented",
            "scattered", "external", "capacity", "impossible", "unknown")
BARRIERS = ("stream", "class", "pool", "pending", "oversize", "expandable")
ALSO = ("limit", "rounding", "capacity-pressure")

STATE = {
    "reserved_bytes": COUNT, "allocated_bytes": COUNT, "requested_bytes": Maybe(COUNT),
    "requested_active_bytes": Maybe(COUNT), "active_bytes": COUNT, "inactive_split_bytes": COUNT,
    "pending_bytes": COUNT, "free_bytes": COUNT, "largest_hole_bytes": COUNT, "segments": COUNT,
    "blocks": COUNT, "holes": COUNT,
    "gap": GAP,
    "device_free_bytes": Maybe(COUNT), "device_total_bytes": Maybe(COUNT),
    "limit_bytes": Maybe(COUNT),
    "homes": [{"pool": POOL, "class": OneOf("small", "large"), "stream": NUMBER,
               "expandable": bool, "free_bytes": COUNT, "largest_hole_bytes": COUNT,
               "holes": COUNT}],
}

PEAKS = {"reserved_bytes": COUNT, "allocated_bytes": COUNT, "active_bytes": COUNT,
         "requested_active_bytes": Maybe(COUNT), "inactive_split_bytes": COUNT}

# What `devices[].replay` has beside `run`: what was run, or why it was not.
REPLAYED = {"first_event": NUMBER, "operations": COUNT, "agreed": COUNT, "requests": COUNT,
            "refusals": COUNT, "differs": Maybe({"event": NUMBER, "what": str}), "assumed": [str]}
NOT_REPLAYED = {"reason": str}

ANSWER = {
    "schema": COUNT, "fragscope": str,
    "input": {"path": str, "kind": OneOf("torch-snapshot", "trace", "ring", "csv"),
              "input_bytes": COUNT, "events": COUNT, "writer": str, "rounding_rule": str},
    "trust": [{"signal": str, "effect": str}],
    "devices": [{"device": COUNT, "end": STATE, "peak": Maybe({"event": NUMBER, **STATE}),
                 "peaks": Maybe(PEAKS), "replay": Maybe({"run": bool})}],
    "failures": [{
        "device": COUNT, "event": NUMBER, "time_us": Maybe(NUMBER),
        "request": {"size_bytes": COUNT, "asked_bytes": Maybe(COUNT), "need_bytes": COUNT,
                    "stream": NUMBER, "pool": POOL, "class": OneOf("small", "large"),
                    "frames": FRAMES},
        "state": STATE,
        "verdict": {"kind": OneOf(*VERDICTS), "certainty": OneOf("proven", "possible"),
                    "stranded_by": [OneOf(*BARRIERS)], "short_by_bytes": Maybe(COUNT),
                    "also": [OneOf(*ALSO)],
                    "missing": [{"fact": str, "threshold_bytes": COUNT}], "text": str},
        "ladder": [{"rung": COUNT, "what": str, "bytes": Maybe(COUNT), "need_bytes": COUNT,
                    "fits": Maybe(bool)}],
        "pins": Maybe({"window_bytes": COUNT, "live_bytes": COUNT,
                       "blocks": [{"address": COUNT, "size_bytes": COUNT, "frames": FRAMES}]}),
        "holders": [{"frames": FRAMES, "bytes": COUNT, "blocks": COUNT}],
        "advice": [{"text": str, "shown_by": str}],
        "replayed": Maybe(bool),
    }],
}


def _sums(state, where):
    """What must hold between the numbers of one state, whatever they are."""
    gap = state["gap"]
    if state["requested_bytes"] is not None:
        parts = sum(gap[part] for part in gap)
        if parts != state["reserved_bytes"] - state["requested_bytes"]:
            yield f"{where}.gap does not sum to reserved - requested"
        if state["requested_bytes"] > state["allocated_bytes"]:
            yield f"{where}: requested > allocated"
    if not state["allocated_bytes"] <= state["active_bytes"] <= state["reserved_bytes"]:
        yield f"{where}: not allocated <= active <= reserved"
    if sum(home["holes"] for home in state["homes"]) != state["holes"]:
        yield f"{where}.homes do not have all holes"
    for key in list(state):
        low = key.replace("_high_bytes", "_bytes")
        if low != key and state[key] is not None and state[key] < state[low]:
            yield f"{where}.{key} is below {low}"


def _peaks(device, name):
    """The peak state is one moment; no layer ever stands above its own peak."""
    if device["peaks"]["allocated_bytes"] != device["peak"]["allocated_bytes"]:
        yield f"{name}: two peaks of allocated bytes"
    for layer, most in device["peaks"].items():
        at_peak = device["peak"][layer] if not layer.endswith("high_bytes") else None
        if most is not None and at_peak is not None and at_peak > most:
            yield f"{name}: {layer} is higher at the peak of allocated bytes"


def _ladder(failure, where):
    """The verdict is the first yes, proven if all before it are no; then every rung is a yes."""
    rungs = failure["ladder"]
    verdict = failure["verdict"]
    if [rung["rung"] for rung in rungs] != list(range(1, 10)):
        yield f"{where}.ladder has not the rungs 1 to 9 in order"
        return
    fits = [rung["fits"] for rung in rungs]
    first = fits.index(True) if True in fits else None
    kinds = ("servable", None, "releasable", "limit", "stranded", "fragmented", "scattered",
             "external", "capacity")
    if first is None:
        # capacity's own rung is "nothing more to relax"; unknown has no yes at all.
        if verdict["kind"] not in ("capacity", "impossible", "unknown"):
            yield f"{where}: {verdict['kind']} without a rung that fits"
        return
    if kinds[first] is not None and verdict["kind"] != kinds[first]:
        yield f"{where}: {verdict['kind']}, but the first yes is rung {first + 1}"
    if first == 1 and verdict["kind"] not in ("servable", "not-explained"):
        yield f"{where}: {verdict['kind']}, but the first yes is rung 2"
    if verdict["certainty"] == "proven" and None in fits[:first]:
        yield f"{where}: proven over an unknown rung"
    if verdict["certainty"] == "possible" and not verdict["missing"]:
        yield f"{where}: possible, but nothing is missing"
    if not all(fits[first:]):
        yield f"{where}: a rung behind the first yes is no yes"
    if bool(verdict["stranded_by"]) != (verdict["kind"] == "stranded"):
        yield f"{where}: stranded_by does not go with {verdict['kind']}"


def _proof(answer):
    """A failure is decided as recorded exactly where its device's run came past it."""
    replays = {device["device"]: device["replay"] for device in answer["devices"]}
    for device, replay in replays.items():
        if replay is None:
            continue
        yield from misshapen(replay, REPLAYED if replay["run"] else NOT_REPLAYED)
    for index, failure in enumerate(answer["failures"]):
        replay = replays.get(failure["device"])
        if failure["replayed"] is None or not replay or not replay["run"]:
            continue
        differs = replay["differs"]
        if failure["replayed"] != (differs is None or differs["event"] > failure["event"]):
            yield f"failure {index}: replayed is {failure['replayed']}, the run differs at {differs}"


def problems(answer):
    """Everything that is wrong with one JSON object; an empty list if nothing is."""
    found = misshapen(answer, ANSWER)
    if found:
        return found
    for device in answer["devices"]:
        name = f"device {device['device']}"
        found += _sums(device["end"], name + " end")
        if device["peak"]:
            found += _sums(device["peak"], name + " peak")
            found += _peaks(device, name)
    for index, failure in enumerate(answer["failures"]):
        found += _sums(failure["state"], f"failure {index}")
        found += _ladder(failure, f"failure {index}")
    found += _proof(answer)
    return found
