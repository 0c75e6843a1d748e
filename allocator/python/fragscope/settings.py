# SPDX-License-Identifier: Apache-2.0
"""Our tokens in PyTorch's allocator settings: which variable counts, what it asks of us, and what is left
for PyTorch. Knows nothing of PyTorch; for the loader."""

import re
from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple

from .loader import RUN_VARIABLE, VARIABLES

BACKENDS = {"fragscope": "dropin", "fragscope_attach": "attach"}
STACKS = ("off", "python", "all")
OPTIONS = {
    "fragscope_ring": "ring_bytes",
    "fragscope_dir": "directory",
    "fragscope_stacks": "stacks",
    "fragscope_min_stack_size": "min_stack_size",
}

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(B|[KMGT](?:iB)?)?")
_UNITS = "BKMGT"
_MOST_BYTES = 1 << 63
_SHOWN_CHARACTERS = 60


class SettingsError(Exception):
    """One line that names the token and the cure."""


@dataclass
class Request:
    """What is asked of us, and by which variable."""

    way: str  # "dropin" or "attach"
    token: str  # As it stands, for messages.
    variable: str
    rest: str = ""  # The variable without our tokens.
    options: Dict[str, str] = field(default_factory=dict)  # By the engine's names.


def _shown(text):
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def split(text):
    """The settings between the commas, those inside of brackets left alone."""
    pieces, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth = max(0, depth - 1)
        elif character == "," and depth == 0:
            pieces.append(text[start:at])
            start = at + 1
    return [*pieces, text[start:]]


def key_and_value(piece):
    """Both as PyTorch reads them, without any space; no value: None."""
    key, colon, value = piece.partition(":")
    return "".join(key.split()), "".join(value.split()) if colon else None


def is_ours(piece):
    """Whether PyTorch must not see it."""
    key, value = key_and_value(piece)
    return key.startswith("fragscope") or (key == "backend" and (value or "").startswith("fragscope"))


def without_ours(text):
    """What is left for PyTorch, to the letter."""
    return ",".join(piece for piece in split(text) if not is_ours(piece))


def size_bytes(text):
    """"64MiB", "1.5G", "4096": units are powers of 1024. None: not a size."""
    found = _SIZE.fullmatch(text)
    if not found:
        return None
    number, unit = found.groups()
    bytes_ = round(float(number) * 1024 ** _UNITS.index((unit or "B")[0])) if "." in number \
        else int(number) * 1024 ** _UNITS.index((unit or "B")[0])
    return bytes_ if bytes_ < _MOST_BYTES else None


def _option(piece):
    """The engine's name of a setting of ours, and its value as the engine takes it."""
    key, value = key_and_value(piece)
    if key not in OPTIONS:
        raise SettingsError(f"{_shown(piece.strip())}: there is no such setting; there are "
                            f"backend:fragscope, backend:fragscope_attach, {', '.join(OPTIONS)}")
    if not value:
        raise SettingsError(f"{key} has no value; write {key}:{_EXAMPLES[key]}")
    if key == "fragscope_dir":
        # A path may have spaces and colons, though no comma.
        return OPTIONS[key], piece.partition(":")[2].strip()
    if key == "fragscope_stacks":
        if value not in STACKS:
            raise SettingsError(f"{key}:{_shown(value)}: write one of {', '.join(STACKS)}")
        return OPTIONS[key], value
    size = size_bytes(value)
    if size is None or (size == 0 and key == "fragscope_ring"):
        raise SettingsError(f"{key}:{_shown(value)}: expected a size, as {_EXAMPLES[key]} or 4194304")
    return OPTIONS[key], str(size)


_EXAMPLES = {"fragscope_ring": "64MiB", "fragscope_dir": "/dev/shm", "fragscope_stacks": "python",
             "fragscope_min_stack_size": "1MiB"}


def _way(pieces):
    """The one backend that is named, with its token; none where there is none."""
    backends = [piece for piece in pieces if key_and_value(piece)[0] == "backend"]
    ours = [piece for piece in backends if is_ours(piece)]
    if not ours:
        return None, None
    if len(backends) > 1:
        both = " and ".join(_shown(piece.strip()) for piece in backends[:2])
        raise SettingsError(f"{both} stand side by side; keep one of them")
    token = "".join(ours[0].split())
    name = token.partition(":")[2]
    if name not in BACKENDS:
        raise SettingsError(f"{_shown(token)}: there is no such backend; "
                            "write backend:fragscope or backend:fragscope_attach")
    return BACKENDS[name], token


def _read(text):
    """(way, token, options) of the settings of ours in a text."""
    pieces = split(text)
    way, token = _way(pieces)
    options, first = {}, {}
    for piece in pieces:
        key = key_and_value(piece)[0]
        if not key.startswith("fragscope"):
            continue
        name, value = _option(piece)
        if name in options:
            raise SettingsError(f"{first[name]} and {_shown(piece.strip())} stand side by side; "
                                "keep one of them")
        options[name], first[name] = value, _shown(piece.strip())
    return way, token, options


def effective(environ):
    """The variable that PyTorch takes its settings from, and its text; ("", "") where none is set."""
    return next(((name, environ[name]) for name in VARIABLES if name in environ), ("", ""))


def rest(environ):
    """The settings that PyTorch takes, without ours."""
    return without_ours(effective(environ)[1])


def overlooked(environ):
    """A variable with a backend of ours that does not count, since another one is set; or None."""
    counts = effective(environ)[0]
    for name in VARIABLES:
        pieces = split(environ.get(name, "")) if name != counts else []
        if any(is_ours(piece) and key_and_value(piece)[0] == "backend" for piece in pieces):
            return name
    return None


def read(environ) -> Optional[Request]:
    """What is asked of us; None if nothing is. Raises SettingsError."""
    variable, text = effective(environ)
    way, token, options = _read(text)
    run = environ.get(RUN_VARIABLE)
    if run is not None:
        run_way, run_token, run_options = _read(run)
        options.update(run_options)
        if run_way:
            way, token = run_way, run_token
        if not way:
            # A backend that the variable names stays with PyTorch, whose own it is.
            way, token = "attach", "backend:fragscope_attach"
    if way:
        return Request(way, token, variable or RUN_VARIABLE, without_ours(text), options)
    ours = [piece.strip() for piece in split(text) if is_ours(piece)]
    if ours:
        raise SettingsError(f"{_shown(ours[0])} alone switches nothing on; "
                            "add backend:fragscope_attach or backend:fragscope")
    return None


def hidden(environ) -> Dict[str, Tuple[str, str]]:
    """For each variable with tokens of ours: its text as it is, and without them. A variable that is left
    with nothing stays set, since those behind it would count otherwise."""
    found = {}
    for name in VARIABLES:
        text = environ.get(name)
        if text is not None and without_ours(text) != text:
            found[name] = (text, without_ours(text))
    return found
