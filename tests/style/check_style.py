#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""House style as a test: what CONTRIBUTING.md asks for and a machine can see.

    check_style.py                  all checks over the files that git tracks
    check_style.py --only format    one check
    check_style.py --fix            reformat with clang-format, new files too
    check_style.py --self-test      every check must catch what planted.py plants for it

A line that must break a rule of the check `leftovers` ends with a comment `style: allow`.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import cpp_scanner

ROOT = Path(__file__).resolve().parents[2]
CPP = (".hpp", ".h", ".cpp", ".cu", ".cuh")
HEADERS = (".hpp", ".h", ".cuh")
SCRIPTS = (".py", ".sh")
CLANG_FORMAT = os.environ.get("CLANG_FORMAT", "clang-format-14")

SKIPPED = 77  # What ctest takes for a skipped test.
MAX_FILES_IN_FOLDER = 12
MAX_FUNCTION_LINES = 70
# Folders of inputs and expected outputs, which are as long and as odd as they must be.
DATA_FOLDER = re.compile(r"^(fixtures|tests/golden|tests/fuzz/[^/]*corpus[^/]*)/")

OUR_FOLDERS = ("allocator", "analyzer", "bench", "devices", "fixtures", "kernels", "tests", "trace",
               "virtual_cuda")
ERRORS_ONLY = ("trace/result.hpp", "trace/check.hpp")
# What the files under a folder may include of ours; the longest folder decides. Folders that are
# not listed may include anything, and nothing listed may include them.
MAY_INCLUDE = {
    "trace/": ("trace/",),
    "allocator/policy/": ("allocator/policy/", *ERRORS_ONLY),
    "allocator/": ("allocator/", "devices/", "trace/"),
    # A failed request is judged where it fails, by the same ladder.
    "allocator/live/evidence/": ("allocator/", "devices/", "trace/", "analyzer/model/",
                                 "analyzer/verdict/"),
    "devices/": ("devices/", *ERRORS_ONLY),
    "kernels/": ("kernels/", *ERRORS_ONLY),
    "analyzer/": ("analyzer/", "allocator/policy/", "devices/", "kernels/", "trace/"),
    "virtual_cuda/": ("virtual_cuda/", "allocator/policy/", "trace/"),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')

# Split, so that this file does not contain what it looks for.
LEFTOVERS = (
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK|NO" r"COMMIT)\b"), "leftover word"),
    (re.compile(r"^\s*#\s*if\s+" r"0\b"), "code switched off"),
    (re.compile(r"\bstd::c(?:out|err)\s*<<\s*\"(?i:debug)|printf\(\"(?i:debug)"), "debug output"),
    (re.compile(r"\b(breakpoint\(" r"\)|set_trace\(|console\." r"log\()"), "debug statement"),
    (re.compile(r"^(<{7} |>{7} |={7}$)"), "merge conflict"),
    (re.compile(r"(?<![\w.~}/-])/(wo" r"rk|ro" r"ot)/\w"), "path of one machine"),
    (re.compile(r"\b(deb\.deb" r"ian\.org|py" r"pi\.org|pythonhos" r"ted\.org)\b"), "package host"),
)
HOME_PATH = re.compile(r"(?<![\w.~}/-])/(ho" r"me|Use" r"rs)/\w")
ALLOW = re.compile(r"(//|#|<!--)\s*style: allow\b")


@dataclass
class Finding:
    path: str
    line: int
    text: str


class GitTree:
    """The files that git tracks (or would on `git add`), as they are in the working tree."""

    def __init__(self, root, untracked=False):
        self.root = root
        if not (root / ".git").exists():
            print("SKIPPED: this tree is not under git")
            sys.exit(SKIPPED)
        command = ["git", "-C", str(root), "ls-files", "-z"]
        if untracked:
            command += ["--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, check=True, capture_output=True).stdout.decode()
        self.paths = sorted(p for p in listed.split("\0") if p and (root / p).is_file())

    def text(self, path):
        """The file's text, or None if it is binary."""
        try:
            return (self.root / path).read_bytes().decode()
        except UnicodeDecodeError:
            return None


class PlantedTree:
    """Files that exist only here; for the self-test."""

    def __init__(self, files):
        self.files = files
        self.paths = sorted(files)

    def text(self, path):
        return self.files[path]


def is_data(path):
    """Whether the file is an input or an expected output; what lies beside those is ours."""
    return bool(DATA_FOLDER.match(path)) and not path.endswith((*CPP, *SCRIPTS, ".md"))


def is_script(tree, path):
    if path.endswith(SCRIPTS):
        return True
    return "." not in PurePosixPath(path).name and (tree.text(path) or "").startswith("#!")


def sources(tree, suffixes=CPP):
    """Paths of C++ files (or of those with other `suffixes`) and their text."""
    for path in tree.paths:
        if path.endswith(suffixes):
            yield path, tree.text(path) or ""


def check_format(tree):
    """clang-format 14 would change nothing."""
    for path, text in sources(tree):
        formatted = clang_format(path, text)
        if formatted == text:
            continue
        wanted = formatted.split("\n") + [None]
        found = text.split("\n") + [None]
        line = next(i for i, (a, b) in enumerate(zip(wanted, found), 1) if a != b)
        yield Finding(path, line, "clang-format would change this; try check_style.py --fix")


def clang_format(path, text):
    if not shutil.which(CLANG_FORMAT):
        sys.exit(f"{CLANG_FORMAT} is missing; on Debian: apt-get install clang-format-14")
    command = [CLANG_FORMAT, f"--style=file:{ROOT / '.clang-format'}", f"--assume-filename={path}"]
    return subprocess.run(command, input=text.encode(), check=True,
                          capture_output=True).stdout.decode()


def check_includes(tree):
    """Includes follow the arrows of the architecture and are spelt from the repository root."""
    known = set(tree.paths)
    for path, text in sources(tree):
        folder = max((f for f in MAY_INCLUDE if path.startswith(f)), key=len, default=None)
        first = True
        for number, line in enumerate(text.split("\n"), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, included = match.groups()
            ours = included.split("/")[0] in OUR_FOLDERS and "/" in included
            own = str(PurePosixPath(path).with_suffix(".hpp"))
            if quote == '"' and not (ours and {included, included + ".in"} & known):
                yield Finding(path, number, f'"{included}" is no file of ours, spelt from the root')
            elif quote == "<" and ours:
                yield Finding(path, number, f"<{included}> is ours: quote it")
            elif ours and folder and not included.startswith(MAY_INCLUDE[folder]):
                yield Finding(path, number, f"{folder} must not use {included}")
            if first and path.endswith((".cpp", ".cu")) and own in known and included != own:
                yield Finding(path, number, f"the first include must be its own header, {own}")
            first = False


def check_folder_size(tree):
    """No folder holds more files than a reader can take in."""
    counts = Counter(str(PurePosixPath(p).parent) for p in tree.paths
                     if not DATA_FOLDER.match(p))
    for folder, count in sorted(counts.items()):
        if count > MAX_FILES_IN_FOLDER:
            yield Finding(folder, 1, f"{count} files in one folder, at most {MAX_FILES_IN_FOLDER}")


def check_nodiscard(tree):
    """Every function of a header that returns a Result is marked, since its type cannot be."""
    for path, text in sources(tree, HEADERS):
        for found in cpp_scanner.declarations(text):
            attributes = re.findall(r"\[\[.*?\]\]", found.head)
            head = re.sub(r"\[\[.*?\]\]", " ", found.head)
            head = re.sub(r"^\s*template\s*<.*?>\s*(?=\w)", "", head, flags=re.DOTALL)
            head = re.sub(r"\b(static|inline|constexpr|virtual|friend|extern)\b", " ", head).strip()
            returns = re.match(r"(?:\w*::)*Result\s*<.*>\s*(\w+)\s*\(", head, re.DOTALL)
            trailing = re.match(r"auto\s+(\w+)\s*\(.*->\s*(?:\w*::)*Result\s*<", head, re.DOTALL)
            name = returns or trailing
            if name and "=" not in head.split("(")[0] and "nodiscard" not in "".join(attributes):
                yield Finding(path, found.first_line, f"{name.group(1)}: add [[nodiscard]]")


def check_function_length(tree):
    """Functions fit on one screen."""
    for path, text in sources(tree):
        spans = [(d.first_line, d.last_line)
                 for d in cpp_scanner.declarations(text) if d.is_function]
        yield from too_long(path, spans)
    for path, text in sources(tree, (".py",)):
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        spans = [(n.lineno, n.end_lineno) for n in ast.walk(ast.parse(text))
                 if isinstance(n, functions)]
        yield from too_long(path, spans)
    for path in tree.paths:
        if is_script(tree, path) and not path.endswith(".py"):
            text = tree.text(path)
            matches = re.finditer(r"^\w+\(\) \{$.*?^\}$", text, re.DOTALL | re.MULTILINE)
            spans = [(text.count("\n", 0, m.start()) + 1, text.count("\n", 0, m.end()) + 1)
                     for m in matches]
            yield from too_long(path, spans)


def too_long(path, spans):
    for first, last in spans:
        length = last - first + 1
        if length > MAX_FUNCTION_LINES:
            yield Finding(path, first, f"function of {length} lines, at most {MAX_FUNCTION_LINES}")


def check_spdx(tree):
    """Every source says its licence in its first line (scripts: after the shebang)."""
    for path in tree.paths:
        if is_data(path):
            continue
        if path.endswith(CPP):
            wanted, at = "// SPDX-License-Identifier: Apache-2.0", 0
        elif is_script(tree, path):
            wanted, at = "# SPDX-License-Identifier: Apache-2.0", 1
        else:
            continue
        lines = (tree.text(path) or "").split("\n")
        at = at if lines[0].startswith("#!") else 0
        if lines[at: at + 1] != [wanted]:
            yield Finding(path, at + 1, f"this line must be: {wanted}")


def check_header_comment(tree):
    """Every header starts by saying what it is, and guards itself with #pragma once."""
    for path, text in sources(tree, HEADERS):
        lines = text.split("\n")
        if not re.match(r"// \S.{15,}", lines[1] if len(lines) > 1 else ""):
            yield Finding(path, 2, "a header starts with // lines: what it is, who uses it")
        if "#pragma once" not in lines:
            yield Finding(path, 1, "#pragma once is missing")


def check_ascii(tree):
    """Sources are ASCII: what the eye sees is what the compiler reads."""
    for path in tree.paths:
        name = PurePosixPath(path).name
        cmake = name == "CMakeLists.txt" or path.endswith((".cmake", ".json"))
        if is_data(path) or not (path.endswith(CPP) or cmake or is_script(tree, path)):
            continue
        for number, line in enumerate((tree.text(path) or "").split("\n"), 1):
            if not line.isascii():
                column = next(i for i, c in enumerate(line, 1) if not c.isascii())
                yield Finding(path, number, f"not ASCII in column {column}: {line[column - 1]!r}")


def check_leftovers(tree):
    """Nothing that only made sense while writing, or on one machine."""
    for path in tree.paths:
        if is_data(path) or path == "LICENSE":
            continue
        rules = list(LEFTOVERS)
        if not path.startswith("tests/"):  # Recordings and logs in tests name such paths.
            rules.append((HOME_PATH, "path of one machine"))
        for number, line in enumerate((tree.text(path) or "").split("\n"), 1):
            if ALLOW.search(line):
                continue
            for pattern, what in rules:
                match = pattern.search(line)
                if match:
                    yield Finding(path, number, f"{what}: {match.group(0).strip()}")


def check_links(tree):
    """Relative links in the docs lead somewhere, headings included."""
    known = set(tree.paths)
    folders = {str(parent) for p in known for parent in PurePosixPath(p).parents}
    for path in tree.paths:
        if not path.endswith(".md") or is_data(path):
            continue
        for number, target in links(tree.text(path) or ""):
            file, _, heading = target.partition("#")
            base = PurePosixPath(path).parent
            resolved = os.path.normpath(base / file) if file else path
            if resolved not in known and resolved not in folders:
                yield Finding(path, number, f"link to {target}: no such file")
            elif heading and resolved.endswith(".md"):
                if heading not in headings(tree.text(resolved) or ""):
                    yield Finding(path, number, f"link to {target}: no such heading")


def without_code(text):
    """Markdown with code blocks and code spans blanked, line for line."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    text = re.sub(r"^```.*?^```", blank, text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]+`", blank, text)


def links(markdown):
    for number, line in enumerate(without_code(markdown).split("\n"), 1):
        for target in re.findall(r"\]\(\s*<?([^)\s>]+)", line):
            if not re.match(r"[a-z][a-z0-9+.-]*:", target):
                yield number, target


def headings(markdown):
    """The anchors that a Markdown page offers, spelt as code forges spell them."""
    text = re.sub(r"^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+\s+(.*?)\s*#*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


CHECKS = {
    "format": check_format,
    "includes": check_includes,
    "folder_size": check_folder_size,
    "nodiscard": check_nodiscard,
    "function_length": check_function_length,
    "spdx": check_spdx,
    "header_comment": check_header_comment,
    "ascii": check_ascii,
    "leftovers": check_leftovers,
    "links": check_links,
}


def self_test():
    """Runs each check on texts that break its rule, and on texts that do not."""
    import planted

    failures = 0
    for name, check in CHECKS.items():
        cases = planted.CASES[name]
        assert any(wanted for _, wanted in cases) and any(not wanted for _, wanted in cases), name
        for files, wanted in cases:
            found = [f"{f.path}:{f.line}" for f in check(PlantedTree(files))]
            if found != wanted:
                failures += 1
                print(f"self-test of {name}: wanted {wanted}, found {found}, in {files}")
    print(f"self-test: {sum(map(len, planted.CASES.values()))} cases, {failures} failed")
    return 1 if failures else 0


def fix():
    for path, text in sources(GitTree(ROOT, untracked=True)):
        formatted = clang_format(path, text)
        if formatted != text:
            (ROOT / path).write_text(formatted)
            print(f"reformatted {path}")
    return 0


def main():
    parser = argparse.ArgumentParser(description="House style as a test.")
    parser.add_argument("--only", choices=CHECKS, help="run this check alone")
    parser.add_argument("--untracked", action="store_true", help="look at new files too")
    parser.add_argument("--fix", action="store_true", help="reformat with clang-format")
    parser.add_argument("--self-test", action="store_true", help="test the checks themselves")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if arguments.fix:
        return fix()

    tree = GitTree(ROOT, arguments.untracked)
    findings = 0
    for name in [arguments.only] if arguments.only else CHECKS:
        for finding in CHECKS[name](tree):
            print(f"{finding.path}:{finding.line}: {name}: {finding.text}")
            findings += 1
    print(f"{len(tree.paths)} files, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
