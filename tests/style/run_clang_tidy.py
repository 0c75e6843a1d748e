#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the host .cpp files that git tracks, a few at a time.

    run_clang_tidy.py --build build/dev [--jobs 2] [FILE...]
    run_clang_tidy.py --self-test

A file that was clean stays clean until it, one of our headers under it, its compile command, the
configuration or clang-tidy itself changes; empty files that say so lie in the user's cache folder, so
that every clone and build folder knows. Files that the build folder's compile_commands.json does not
list are named, not checked. CUDA files are left out.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path("~").expanduser() / ".cache") / "fragscope"
CLANG_TIDY = os.environ.get("CLANG_TIDY", str(CACHE / "clang-tidy-23" / "bin" / "clang-tidy"))

# Each line breaks one rule; the self-test wants to see all of them.
PLANTED = """\
class badly_named {
 public:
  badly_named(int number) : count(number) {}
  int total() const { return count; }

 private:
  int count;
};
enum class Kind { plain };
int f(const int* p) {
  if (p == nullptr)
    return 1;
  else
    while (true)
      if (*p != 1)
        return 2;
}
"""
EXPECTED = (
    "badly_named' [readability-identifier-naming",
    "count' [readability-identifier-naming",
    "plain' [readability-identifier-naming",
    "[google-explicit-constructor",
    "[modernize-use-nodiscard",
    "[readability-braces-around-statements",
)


def tidy(file, *arguments):
    """What clang-tidy has to say about one file: (whether it is clean, its output)."""
    # g++ has warnings that clang does not know by name.
    command = [CLANG_TIDY, "--quiet", "--extra-arg=-Wno-unknown-warning-option", *arguments]
    if "--" in command:  # Compiler flags instead of a build folder.
        command.insert(command.index("--"), str(file))
    else:
        command.append(str(file))
    done = subprocess.run(command, capture_output=True, text=True)
    # Standard error holds the count of warnings that were not shown, and crashes.
    return done.returncode == 0, done.stdout if done.stdout.strip() else done.stderr


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "planted.cpp"
        file.write_text(PLANTED)
        clean, output = tidy(file, f"--config-file={ROOT / '.clang-tidy'}", "--", "-std=c++20")
    missing = [rule for rule in EXPECTED if rule not in output.replace(", -warnings", "")]
    for rule in missing:
        print(f"self-test: clang-tidy did not report {rule}]")
    if missing:
        print(output)
    print(f"self-test: {len(EXPECTED)} rules, {len(missing)} missed")
    return 1 if missing or clean else 0


def stamp_folder():
    folder = CACHE / "clang_tidy"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def stamp_key(file, command, version):
    """A hash over everything of ours that the findings in `file` depend on."""
    pending, seen = [file], set()
    # Another clone compiles the same way.
    digest = hashlib.sha256((version + command.replace(str(ROOT), "")).encode())
    for config in (ROOT / ".clang-tidy", ROOT / "tests" / ".clang-tidy"):
        digest.update(config.read_bytes())
    while pending:
        path = pending.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        text = path.read_bytes()
        digest.update(text)
        included = re.findall(rb'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE)
        pending += [ROOT / name.decode() for name in included]
    return digest.hexdigest()


def tracked_sources():
    if not (ROOT / ".git").exists():
        print("SKIPPED: this tree is not under git")
        sys.exit(77)  # What ctest takes for a skipped test.
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", "*.cpp"], check=True,
                            capture_output=True, text=True).stdout
    return [ROOT / path for path in listed.split("\0") if path and (ROOT / path).is_file()]


def main():
    parser = argparse.ArgumentParser(description="clang-tidy over our own host sources.")
    parser.add_argument("--build", type=Path, help="build folder with compile_commands.json")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--self-test", action="store_true", help="test the configuration itself")
    parser.add_argument("files", nargs="*", type=Path, help="only these files")
    arguments = parser.parse_args()
    if not shutil.which(CLANG_TIDY):
        sys.exit(f"{CLANG_TIDY} is missing: scripts/setup.sh test installs it")
    if arguments.self_test:
        return self_test()
    if not arguments.build:
        parser.error("--build is needed")

    entries = json.loads((arguments.build / "compile_commands.json").read_text())
    commands = {Path(e["directory"], e["file"]): e["command"] for e in entries}
    wanted = [file.resolve() for file in arguments.files] or tracked_sources()
    for file in wanted:
        if file not in commands:
            print(f"not part of this build: {file.relative_to(ROOT)}")
    checked = [file for file in wanted if file in commands]
    stamps = stamp_folder()
    version = subprocess.run([CLANG_TIDY, "--version"], check=True, capture_output=True,
                             text=True).stdout
    pending = {file: stamps / stamp_key(file, commands[file], version) for file in checked}
    pending = {file: stamp for file, stamp in pending.items() if not stamp.exists()}
    # The longest first, so that no core idles at the end.
    order = sorted(pending, key=lambda file: -file.stat().st_size)
    dirty = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = pool.map(lambda file: tidy(file, "-p", arguments.build), order)
        for file, (clean, output) in zip(order, results):
            if clean:
                pending[file].touch()
            else:
                print(output, end="", flush=True)
                dirty += 1
    unchanged = len(checked) - len(order)
    print(f"{len(checked)} files, {unchanged} unchanged since they were clean, {dirty} with findings")
    return 1 if dirty else 0


if __name__ == "__main__":
    sys.exit(main())
