# SPDX-License-Identifier: Apache-2.0
"""The shape of `timeline --json`. `timeline_problems` lists what is wrong with one object."""

from contract.course import HEAD
from contract.kinds import COUNT, FRAMES, Maybe, NUMBER, OneOf, misshapen

SERVERS = ("hole", "driver", "nobody")
MEANS = ("hole", "driver", "compaction", "nothing")
HOME = {"pool": [COUNT], "class": OneOf("small", "large"), "stream": NUMBER, "expandable": bool}
CURVE = {"least_bytes": [Maybe(COUNT)], "most_bytes": [Maybe(COUNT)]}
TURN = {"event": NUMBER, "served_before_by": OneOf(*SERVERS), "served_after_by": OneOf(*SERVERS),
        "largest_run_before_bytes": COUNT, "driver_before_bytes": COUNT,
        "cause": {"text": str, "address": COUNT, "size_bytes": COUNT, "frames": FRAMES},
        "verdict": Maybe(str)}
TIMELINE = {
    **HEAD, "first_event": NUMBER, "end_event": NUMBER, "columns": [NUMBER],
    "homes": [{**HOME, "largest_hole": CURVE}],
    "asked": Maybe({
        **HOME, "size_bytes": COUNT, "is_failure": bool, "device_free_known": bool,
        "largest_served": CURVE, "free_at_home": CURVE, "known_from_event": NUMBER,
        "first_served_by": OneOf(*SERVERS), "last_served_by": OneOf(*SERVERS),
        "turn_count": COUNT, "turns": [TURN]}),
    "size_map": Maybe({
        "scanned_on": OneOf("cpu", "cuda"), "scanned_on_reason": str, "behind_events": [NUMBER],
        "driver_bytes": [COUNT], "move_bytes": [Maybe(COUNT)],
        "sizes": [{"size_bytes": COUNT, "served_by": [OneOf(*MEANS)]}]}),
}


def _curve(curve, columns):
    least, most = curve["least_bytes"], curve["most_bytes"]
    if len(least) != columns or len(most) != columns:
        yield "not an entry for each column"
    for low, high in zip(least, most):
        if (low is None) != (high is None) or (low is not None and low > high):
            yield f"{low} is not up to {high}"


def _turns(asked):
    for before, after in zip(asked["turns"], asked["turns"][1:]):
        if before["event"] > after["event"]:
            yield "turns are not in order"
    for turn in asked["turns"]:
        if (turn["served_before_by"] == "nobody") == (turn["served_after_by"] == "nobody"):
            yield f"event {turn['event']} turns nothing"
    if len(asked["turns"]) > asked["turn_count"]:
        yield "more turns than turn_count"


def _size_map(size_map, asked):
    moments = len(size_map["behind_events"])
    if size_map["behind_events"] != sorted(size_map["behind_events"]):
        yield "moments are not in order"
    for name in ("driver_bytes", "move_bytes"):
        if len(size_map[name]) != moments:
            yield f"{name} has not an entry for each moment"
    sizes = [row["size_bytes"] for row in size_map["sizes"]]
    if sizes != sorted(set(sizes)):
        yield "sizes do not rise"
    for smaller, larger in zip(size_map["sizes"], size_map["sizes"][1:]):
        for less, more in zip(smaller["served_by"], larger["served_by"]):
            # Of the driver's answers it is not so: small segments are rounded up further.
            if more == "hole" and less != "hole":
                yield f"a hole serves {larger['size_bytes']}, but not {smaller['size_bytes']}"
    for row in size_map["sizes"]:
        if len(row["served_by"]) != moments:
            yield f"{row['size_bytes']} has not an answer for each moment"
        if row["size_bytes"] != asked["size_bytes"]:
            continue
        for means, move in zip(row["served_by"], size_map["move_bytes"]):
            # A hole is a range without a live byte in it, unless the oversize rules forbid it.
            if means == "hole" and move != 0:
                yield f"a hole serves {row['size_bytes']}, but {move} bytes had to move"


def timeline_problems(answer):
    found = misshapen(answer, TIMELINE)
    if found:
        return found
    columns = len(answer["columns"])
    curves = [home["largest_hole"] for home in answer["homes"]]
    asked = answer["asked"]
    if asked:
        curves += [asked["largest_served"], asked["free_at_home"]]
        found += list(_turns(asked))
    for curve in curves:
        found += list(_curve(curve, columns))
    if (asked is None) != (answer["size_map"] is None):
        found.append("a size map does not go with a request")
    elif asked:
        found += list(_size_map(answer["size_map"], asked))
    return found
