# SPDX-License-Identifier: Apache-2.0
"""Which tests of a file belong to the suite: rules by name, the last one that fits decides.

A line is `+ Class.test` or `- Class.test`, with * and ? as in file names; what follows two spaces and # is
a comment.
"""

import fnmatch


def read_rules(path):
    rules = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.split("#", 1)[0].strip()
        if not text:
            continue
        sign, _, pattern = text.partition(" ")
        if sign not in "+-" or not pattern.strip():
            raise ValueError(f"{path}:{number}: expected '+ PATTERN' or '- PATTERN', found '{text}'")
        rules.append((sign == "+", pattern.strip()))
    return rules


def selected(rules, test):
    verdict = False
    for wanted, pattern in rules:
        if fnmatch.fnmatchcase(test, pattern):
            verdict = wanted
    return verdict
