# SPDX-License-Identifier: Apache-2.0
"""Finds functions and declarations in C++ text without parsing C++.

It knows comments, literals, brackets and what may stand before a brace; that is enough for our own
style and wrong for somebody else's. Macros are not expanded and preprocessor lines are ignored.
"""

import re
from dataclasses import dataclass

TOKENS = re.compile(
    r"""
    (?P<comment>//(?:[^\n\\]|\\.|\\\n)*|/\*.*?\*/)
  | (?P<raw>\b(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
  | (?P<number>\b[0-9][0-9a-zA-Z.]*(?:'[0-9a-zA-Z.]+)*)
  | (?P<literal>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
ACCESS = re.compile(r"^\s*(?:(?:public|private|protected)\s*:\s*)*")
TYPE_HEAD = re.compile(
    r"^(?:template\s*<.*>\s*)?(?:typedef\s+)?(?:enum\s+class|enum|class|struct|union)\b", re.DOTALL
)
# What may stand between the parameters of a function and its body.
FUNCTION_TAIL = re.compile(
    r"\)\s*(?:(?:const|override|final|mutable|try|&&|&|noexcept(?:\s*\([^()]*\))?)\s*)*"
    r"(?:->\s*[\w:<>,\s*&()]+|requires\b.*)?$",
    re.DOTALL,
)
INITIALISERS = re.compile(r"\)\s*(?:noexcept(?:\s*\([^()]*\))?\s*)?:(?!:)")


@dataclass
class Declaration:
    """A declaration or a function definition outside other functions."""

    head: str  # Without comments, literals blanked, access specifiers removed.
    first_line: int
    last_line: int
    is_function: bool  # Has a body.


def blank(text):
    """`text` with comments, the insides of literals and preprocessor lines turned into spaces."""

    def replace(match):
        found = match.group(0)
        if match.lastgroup == "number" or match.group("number"):
            return found
        if match.group("literal"):
            return found[0] + " " * (len(found) - 2) + found[-1]
        return re.sub(r"[^\n]", " ", found)

    return TOKENS.sub(replace, text)


def brace_kind(head, inside_function):
    """What the brace after `head` opens: inner, scope, type, function or init."""
    if inside_function:
        return "inner"
    if head.count("(") != head.count(")"):
        return "init"
    if re.search(r"\bnamespace\b", head) or re.fullmatch(r'extern\s*"[^"]*"', head):
        return "scope"
    if INITIALISERS.search(head):  # Foo() : a_{1}, b_(2) {
        return "function" if head[-1] in ")}" else "init"
    if FUNCTION_TAIL.search(head):
        return "function"
    return "type" if TYPE_HEAD.search(head) else "init"


def declarations(text):
    """Every declaration and function definition of `text`, in order."""
    code = blank(text)
    found = []
    kinds = []  # One for each open brace.
    start = 0  # Where the current head begins.
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        inside_function = "function" in kinds
        raw_head = code[start:at]
        head = ACCESS.sub("", raw_head).strip()
        first_line = code.count("\n", 0, start + len(raw_head) - len(raw_head.lstrip())) + 1
        if match.group() == "{":
            kind = brace_kind(head, inside_function)
            kinds.append(kind)
            if kind == "function":
                found.append(Declaration(head, first_line, first_line, True))
            if kind in ("scope", "type"):
                start = at + 1
        elif match.group() == "}":
            kind = kinds.pop() if kinds else "scope"
            if kind == "function":
                found[-1].last_line = code.count("\n", 0, at) + 1
            if kind in ("scope", "type", "function"):
                start = at + 1
        elif not inside_function and head.count("(") == head.count(")"):
            if head:
                last_line = code.count("\n", 0, at) + 1
                found.append(Declaration(head, first_line, last_line, False))
            start = at + 1
    return found
