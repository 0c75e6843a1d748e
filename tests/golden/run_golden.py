#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command on fixtures and compares all that it prints, and its exit code, with a file.

  run_golden.py --tool build/dev/bin/fragscope           all of them
  run_golden.py --tool ... demo_oom.analyze.txt          one
  FRAGSCOPE_UPDATE_GOLDEN=1 run_golden.py --tool ...     writes the files; read the diff

Runs from the repository's root. A file that no case names is a failure, too.
"""

import argparse
import difflib
import json
import os
from pathlib import Path
import subprocess
import sys

from course_cases import COURSE_CASES
from devices_cases import DEVICES_CASES
from explain_cases import EXPLAIN_CASES
from golden_cases import CASES as ANALYZE_CASES
from replay_cases import REPLAY_CASES
from trace_cases import TRACE_CASES

CASES = ANALYZE_CASES + EXPLAIN_CASES + TRACE_CASES + COURSE_CASES + DEVICES_CASES + REPLAY_CASES
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def machine_of(case):
    """Options of the virtual machine that the case needs; none: it needs no GPU."""
    return getattr(case, "machine", ())


def command_of(tool, libraries, case):
    if not machine_of(case):
        return [tool, *case.arguments]
    return ["virtual_cuda/run", "--libraries", libraries, *case.machine, "--", tool,
            *case.arguments]


def run(tool, libraries, case):
    """Standard output, standard error and exit code as one text."""
    environment = {key: value for key, value in os.environ.items()
                   if key not in ("NO_COLOR", "CLICOLOR_FORCE", "CUDA_VISIBLE_DEVICES",
                                  "CUDA_DEVICE_ORDER")}
    environment.update(getattr(case, "environment", ()))
    stdin = open(ROOT / case.stdin, "rb") if case.stdin else subprocess.DEVNULL
    done = subprocess.run(command_of(tool, libraries, case), cwd=ROOT, stdin=stdin, capture_output=True,
                          timeout=60, env=environment, check=False)
    out = done.stdout.decode()
    if "--json" in case.options:
        parsed = json.loads(out)
        parsed["fragscope"] = "VERSION"
        for key in ("time_s", "host_namespace"):  # Of the machine that the test runs on.
            if key in parsed:
                parsed[key] = type(parsed[key]).__name__
        out = json.dumps(parsed, indent=1) + "\n"
    text = "".join(f"{key}={value} " for key, value in getattr(case, "environment", ()))
    text = f"$ {text}fragscope " + " ".join(case.arguments)
    if machine_of(case):
        text += "  # virtual_cuda/run " + " ".join(case.machine)
    if case.stdin:
        text += " < " + case.stdin
    text += "\n" + out
    if done.stderr:
        text += "--- standard error\n" + done.stderr.decode()
    return text.replace("\x1b", "<ESC>") + f"--- exit code {done.returncode}\n"


def check(tool, libraries, case, update):
    """Whether the case prints what its file holds; writes the file if wanted."""
    got = run(tool, libraries, case)
    path = HERE / case.golden
    if update:
        path.parent.mkdir(exist_ok=True)
        path.write_text(got)
        return True
    want = path.read_text() if path.exists() else ""
    if got == want:
        return True
    sys.stdout.writelines(difflib.unified_diff(
        want.splitlines(True), got.splitlines(True), f"tests/golden/{case.golden}", "printed now"))
    return False


def files_without_case():
    named = {case.golden for case in CASES}
    names = [path.relative_to(HERE).as_posix() for path in HERE.rglob("*.txt")]
    return sorted(set(names) - named - {"CMakeLists.txt"})


def main():
    parser = argparse.ArgumentParser(description="Compares printed text with files.")
    parser.add_argument("--tool")
    parser.add_argument("--libraries",
                        help="virtual CUDA; without it what needs a GPU is left out, and said")
    parser.add_argument("--list", action="store_true", help="names of the golden files")
    parser.add_argument("golden", nargs="*")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(case.golden for case in CASES))
        return 0
    cases = [case for case in CASES if not arguments.golden or case.golden in arguments.golden]
    if not arguments.libraries:
        print("left out:", *[case.golden for case in cases if machine_of(case)])
        cases = [case for case in cases if not machine_of(case)]
    update = os.environ.get("FRAGSCOPE_UPDATE_GOLDEN") == "1"
    tool = os.path.abspath(arguments.tool)
    failed = [case.golden for case in cases if not check(tool, arguments.libraries, case, update)]
    if not arguments.golden:
        failed += [f"{name}: no case names it" for name in files_without_case()]
    if failed:
        print("\nnot as expected:", *failed, sep="\n  ")
        print("Where the new text is right: FRAGSCOPE_UPDATE_GOLDEN=1, and read the diff.")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
