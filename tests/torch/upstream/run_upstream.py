#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own tests of its caching allocator over virtual CUDA, through one of fragscope's ways in.

    run_upstream.py --tests pytorch/test/test_cuda.py --torch 2.15 --libraries build/dev/virtual_cuda \
        --way attach --settings expandable --against native.tsv --output attach.tsv

The file comes with PyTorch's source, not with this project, and is not changed. Each test has a process of
its own. What was found and what cannot run: docs/compatibility.md.
"""

import argparse
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import results
import selection
import ways

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SKIPPED = 77  # What ctest takes for a skipped test.
SETTINGS = {"default": "", "expandable": "expandable_segments:True"}
# What may reach the tests from outside, and must not.
UNWANTED = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "CUDA_VISIBLE_DEVICES", "CI")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=Path, default=os.environ.get("FRAGSCOPE_UPSTREAM_TESTS"),
                        help="PyTorch's test/test_cuda.py ($FRAGSCOPE_UPSTREAM_TESTS)")
    parser.add_argument("--torch", help="version, as scripts/torch_env.sh knows it; without it, this "
                        "Python runs the tests, without virtual CUDA")
    parser.add_argument("--packages", type=Path, default=os.environ.get("FRAGSCOPE_UPSTREAM_PACKAGES"),
                        help="a folder with expecttest, hypothesis and psutil, as pip install --target "
                        "makes it ($FRAGSCOPE_UPSTREAM_PACKAGES)")
    parser.add_argument("--libraries", type=Path, help="the folder of virtual CUDA's libraries")
    parser.add_argument("--way", choices=ways.WAYS, default="native")
    parser.add_argument("--allocator", type=Path, help="libfragscope_alloc.so, for all ways but native")
    parser.add_argument("--shim", type=Path,
                        help="libfragscope_torch.so, for attach and dropin; without it, it is built")
    parser.add_argument("--settings", choices=SETTINGS, default="default")
    parser.add_argument("--gpus", default="1", help="how many virtual GPUs (1)")
    parser.add_argument("--selection", type=Path, default=HERE / "selection.txt")
    parser.add_argument("--select", type=re.compile, default=re.compile(""), metavar="REGEX",
                        help="only these of the selected tests")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=300, help="seconds for a test (300); some compile C++")
    parser.add_argument("--extensions", type=Path, help="keep the C++ that tests compile in this folder")
    parser.add_argument("--logs", type=Path, help="keep what each test printed in this folder")
    parser.add_argument("--against", type=Path, help="a table: fail where a test passes there, not here")
    parser.add_argument("--output", type=Path, help="write the table")
    arguments = parser.parse_args()
    if not arguments.tests:
        print("SKIPPED: neither --tests nor FRAGSCOPE_UPSTREAM_TESTS says where PyTorch's tests are")
        sys.exit(SKIPPED)
    return arguments


def torch_python(version):
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "fragscope" / f"torch-{version}"
    if not (folder / "complete").exists():
        print(f"SKIPPED: no PyTorch in {folder}; scripts/torch_env.sh {version} makes it")
        sys.exit(SKIPPED)
    return str(folder / "bin" / "python")


def extensions_folder(arguments, folder, job):
    """Where the tests of one job compile C++; a test that was ended while it did has left a lock."""
    extensions = (arguments.extensions or Path(folder)).resolve() / f"job{job}"
    for lock in extensions.glob("**/lock"):
        lock.unlink()
    return extensions


def environment(arguments, extensions):
    """The surroundings of the tests of one job."""
    names = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    names["PYTHONDONTWRITEBYTECODE"] = "1"
    if SETTINGS[arguments.settings]:
        names["PYTORCH_CUDA_ALLOC_CONF"] = SETTINGS[arguments.settings]
    names["TORCH_EXTENSIONS_DIR"] = str(extensions)
    if arguments.packages:
        names["PYTHONPATH"] = str(arguments.packages.resolve())
    return names


def on_virtual_cuda(arguments, *command):
    return [sys.executable, str(ROOT / "virtual_cuda/run"), "--gpus", arguments.gpus,
            "--libraries", str(arguments.libraries), "--", *map(str, command)]


def build_shim(arguments, python, folder):
    """The library for the PyTorch of this Python, freshly compiled."""
    if arguments.way not in ("attach", "dropin") or arguments.shim:
        return arguments.shim
    build = on_virtual_cuda(arguments, python, ROOT / "allocator/python/fragscope/shim.py", ROOT, folder)
    return Path(subprocess.run(build, check=True, text=True, stdout=subprocess.PIPE).stdout.strip())


class Forker:
    """One forker.py; started again where it is lost."""

    def __init__(self, command, names, limit_s):
        self._command, self._names, self._limit_s = command, names, limit_s
        self._process = None

    def ask(self, command):
        if self._process is None:
            self._process = subprocess.Popen(self._command, env=self._names, text=True,
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self._process.stdin.write(json.dumps({"command": command, "limit_s": self._limit_s}) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            self.close()
            return {"outcome": "crashed", "reason": "the process that forks for the tests ended"}

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None


def run_all(forkers, tests):
    """The rows of all tests, in their order."""
    waiting, rows = queue.SimpleQueue(), {}
    for test in tests:
        waiting.put(test)

    def work(forker):
        while True:
            try:
                test = waiting.get_nowait()
            except queue.Empty:
                return
            rows[test] = {"test": test, **forker.ask(test)}
            if rows[test]["outcome"] not in ("passed", "skipped"):
                print(f"{rows[test]['outcome']:9} {test}: {rows[test]['reason']}", flush=True)

    threads = [threading.Thread(target=work, args=(forker,)) for forker in forkers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [rows[test] for test in tests]


def chosen_tests(arguments, forker):
    reply = forker.ask("list")
    if "tests" not in reply:
        sys.exit(f"run_upstream: {arguments.tests}: {reply['reason']}")
    rules = selection.read_rules(arguments.selection)
    tests = [test for test in reply["tests"]
             if selection.selected(rules, test) and arguments.select.search(test)]
    print(f"{len(tests)} of {len(reply['tests'])} tests are selected; adjusted: "
          f"{', '.join(reply['adjustments']) or 'nothing'}", flush=True)
    return tests


def verdict(arguments, rows):
    """The exit code."""
    print(f"{arguments.way}, {arguments.settings}: {results.summary(rows)}")
    if arguments.output:
        results.write(arguments.output, rows)
    if not arguments.against:
        return 0 if rows else 1
    worse = list(results.regressions(results.read(arguments.against), rows))
    for row in worse:
        print(f"passes in {arguments.against} and not here: {row['test']}: {row['outcome']}: {row['reason']}")
    return 1 if worse or not rows else 0


def main():
    arguments = parse_arguments()
    python = torch_python(arguments.torch) if arguments.torch else sys.executable
    with tempfile.TemporaryDirectory() as folder:
        logs = (arguments.logs or Path(folder)).resolve()
        logs.mkdir(parents=True, exist_ok=True)
        shim = build_shim(arguments, python, folder)
        way = {"name": arguments.way, "allocator": str(arguments.allocator.resolve())
               if arguments.allocator else "", "shim": str(shim.resolve()) if shim else "",
               "rings": folder}
        command = [python, str(HERE / "forker.py"), str(arguments.tests), json.dumps(way), str(logs)]
        if arguments.torch:
            command = on_virtual_cuda(arguments, *command)
        forkers = [Forker(command, environment(arguments, extensions_folder(arguments, folder, job)),
                          arguments.limit) for job in range(arguments.jobs)]
        tests = chosen_tests(arguments, forkers[0])
        rows = run_all(forkers, tests)
        for forker in forkers:
            forker.close()
        sys.exit(verdict(arguments, rows))


if __name__ == "__main__":
    main()
