# SPDX-License-Identifier: Apache-2.0
"""The shape of `analyze --json`, as the contract gives it. `problems` lists what is wrong with one
object. Fields that the contract does not name are allowed; missing ones and wrong kinds are not."""

VERDICTS = ("servable", "not-explained", "releasable", "limit", "stranded", "fragmented",
            "scattered", "external", "capacity", "impossible", "unknown")
BARRIERS = ("stream", "class", "pool", "pending", "oversize", "expandable")
ALSO = ("limit", "rounding", "capacity-pressure")


class OneOf:
    def __init__(self, *allowed):
        self.allowed = allowed


class Maybe:
    """null where the fact is not known."""
    def __init__(self, kind):
        self.kind = kind


COUNT = "count"  # an integer, 0 or more
NUMBER = "number"  # any integer
FRAMES = [{"name": str, "filename": str, "line": NUMBER}]
POOL = "pool"

STATE = {
    "reserved_bytes": COUNT, "allocated_bytes": COUNT, "requested_bytes": Maybe(COUNT),
    "requested_active_bytes": Maybe(COUNT), "active_bytes": COUNT, "inactive_split_bytes": COUNT,
    "pending_bytes": COUNT, "free_bytes": COUNT, "largest_hole_bytes": COUNT, "segments": COUNT,
    "blocks": COUNT, "holes": COUNT,
    "gap": {"rounding_bytes": Maybe(COUNT), "pending_bytes": COUNT, "releasable_bytes": COUNT,
            "stuck_bytes": COUNT},
    "device_free_bytes": Maybe(COUNT), "device_total_bytes": Maybe(COUNT),
    "limit_bytes": Maybe(COUNT),
    "homes": [{"pool": POOL, "class": OneOf("small", "large"), "stream": NUMBER,
               "expandable": bool, "free_bytes": COUNT, "largest_hole_bytes": COUNT,
               "holes": COUNT}],
}

PEAKS = {"reserved_bytes": COUNT, "allocated_bytes": COUNT, "active_bytes": COUNT,
         "requested_active_bytes": Maybe(COUNT), "inactive_split_bytes": COUNT}

ANSWER = {
    "schema": COUNT, "fragscope": str,
    "input": {"path": str, "kind": OneOf("torch-snapshot", "trace", "ring", "csv"),
              "input_bytes": COUNT, "events": COUNT, "writer": str, "rounding_rule": str},
    "trust": [{"signal": str, "effect": str}],
    "devices": [{"device": COUNT, "end": STATE, "peak": Maybe({"event": NUMBER, **STATE}),
                 "peaks": Maybe(PEAKS)}],
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
    }],
}


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _shape(value, kind, where):
    if isinstance(kind, Maybe):
        if value is not None:
            yield from _shape(value, kind.kind, where)
    elif isinstance(kind, OneOf):
        if value not in kind.allowed:
            yield f"{where} is {value!r}"
    elif isinstance(kind, dict):
        if not isinstance(value, dict):
            yield f"{where} is no object"
            return
        for key, inner in kind.items():
            if key not in value:
                yield f"{where}.{key} is missing"
            else:
                yield from _shape(value[key], inner, f"{where}.{key}")
    elif isinstance(kind, list):
        if not isinstance(value, list):
            yield f"{where} is no list"
            return
        for index, item in enumerate(value):
            yield from _shape(item, kind[0], f"{where}[{index}]")
    elif kind == POOL:
        if not (isinstance(value, list) and len(value) == 2 and all(map(_is_integer, value))):
            yield f"{where} is {value!r}, no pair"
    elif kind in (COUNT, NUMBER):
        if not _is_integer(value) or (kind == COUNT and value < 0):
            yield f"{where} is {value!r}"
    elif not isinstance(value, kind):
        yield f"{where} is {value!r}"


def _negative_sizes(value, where):
    items = value.items() if isinstance(value, dict) else (
        enumerate(value) if isinstance(value, list) else ())
    for key, inner in items:
        if str(key).endswith("bytes") and isinstance(inner, (int, float)) and inner < 0:
            yield f"{where}.{key} is {inner}"
        yield from _negative_sizes(inner, f"{where}.{key}")


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


def problems(answer):
    """Everything that is wrong with one JSON object; an empty list if nothing is."""
    found = list(_shape(answer, ANSWER, "answer")) + list(_negative_sizes(answer, "answer"))
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
    return found
