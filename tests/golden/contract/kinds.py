# SPDX-License-Identifier: Apache-2.0
"""What the fields of a JSON object may be, and whether an object has them. Fields that a shape does
not name are allowed; missing ones and wrong kinds are not."""


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
GAP = {"rounding_bytes": Maybe(COUNT), "pending_bytes": COUNT, "releasable_bytes": COUNT,
       "stuck_bytes": COUNT}
INPUT = {"path": str, "events": COUNT, "writer": str,
         "kind": OneOf("torch-snapshot", "trace", "ring", "rmm-log", "stalloc-log")}
TRUST = [{"signal": str, "effect": str}]


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


def misshapen(answer, shape):
    """Everything that is wrong with the fields of one object."""
    return list(_shape(answer, shape, "answer")) + list(_negative_sizes(answer, "answer"))
