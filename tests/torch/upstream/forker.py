# SPDX-License-Identifier: Apache-2.0
"""Stands in PyTorch's Python, imports once what a test file imports, and forks a process for each test.

    virtual_cuda/run ... -- python forker.py TESTS WAY LOGS     (run_upstream.py calls it)

Commands come as lines on standard input, {"command": ..., "limit_s": ...}; each is answered by a line.
CUDA must not have started before the fork: that is checked, not hoped for.
"""

import ast
import contextlib
import gc
import importlib
import json
import os
import pickle
import select
import signal
import sys
import time
from pathlib import Path

import test_process

TAIL_BYTES = 4096
# Asks NVML whether there are GPUs, which does not start CUDA; the tests' processes do not have it.
NVML_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"
# What PyTorch's test cases import when they are set up, two seconds each time.
ALWAYS_IMPORTED = ("torch._inductor.cudagraph_trees",)


def answer_of_child(question):
    """What a function returns in a forked process, so that what it starts stays there."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(question(), pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pickle.load(pipe)
    os.waitpid(child, 0)
    return answer


@contextlib.contextmanager
def cuda_asleep():
    """While this lasts, an import that would start CUDA fails instead; the GPU's capability, which
    modules ask for when they are imported, is a child's answer."""
    try:
        import torch
    except ImportError:  # The runner's own tests have no PyTorch.
        yield
        return

    def refuse():
        raise RuntimeError("CUDA is not to start yet")

    capability = answer_of_child(torch.cuda.get_device_capability)
    saved = torch.cuda.get_device_capability, torch.cuda._lazy_init
    torch.cuda.get_device_capability = lambda device=None: capability
    torch.cuda._lazy_init = refuse
    os.environ[NVML_CHECK] = "1"
    yield
    os.environ.pop(NVML_CHECK)
    torch.cuda.get_device_capability, torch.cuda._lazy_init = saved


def preload(tests):
    """Imports what the file's first level names; what fails here fails again, or not, in each test."""
    sys.path.append(str(tests.parent))
    names = []
    for node in ast.parse(tests.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    if "torch" in names:
        names += ALWAYS_IMPORTED
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"forker: {name} is left to each test: {error}", file=sys.stderr)


def check_cuda_has_not_started():
    torch = sys.modules.get("torch")
    if torch is None:
        return
    started = torch.cuda.is_initialized()
    child = os.fork()
    if child == 0:
        os._exit(int(torch._C._cuda_isInBadFork()))
    bad = os.waitpid(child, 0)[1] != 0
    if started or bad:
        sys.exit("forker: CUDA has started before the first test")


def last_line(log):
    """The last line that a crashed process wrote."""
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:test_process.REASON_LENGTH] if lines else ""


def read_reply(pipe, deadline):
    """What the child wrote until it closed the pipe; None once the time is up."""
    data = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        piece = os.read(pipe, 65536)
        if not piece:
            return data
        data += piece


def wait_until(child, deadline):
    """The child's wait status, or None if it still runs at the deadline."""
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    return None


def end_group(child):
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass


def how_it_ended(status):
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.WEXITSTATUS(status)}"


def judge(data, status, log):
    """The answer for a child that is gone, or (without a status) was ended when its time was up."""
    reply = json.loads(data) if data else {}
    if status is None:
        return {**reply, "outcome": "timed out", "reason": last_line(log)}
    if status != 0 or not reply:
        after = f" after the test {reply['outcome']}" if "outcome" in reply else ""
        return {**reply, "outcome": "crashed", "reason": f"{how_it_ended(status)}{after}: {last_line(log)}"}
    return reply


def run_child(command, limit_s, log, child_main):
    """Forks; in the child calls child_main and lets it end as a program ends; the answer here."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reader)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        child_main(command, writer)
        sys.exit(0)  # The usual end, with its destructors: they are part of the test.
    os.close(writer)
    deadline = time.monotonic() + limit_s
    data = read_reply(reader, deadline)
    status = wait_until(child, deadline) if data is not None else None
    end_group(child)  # Its own children too, whatever became of it.
    if status is None:
        os.waitpid(child, 0)
    os.close(reader)
    return judge(data, status, log)


def main():
    tests, way, logs = Path(sys.argv[1]).resolve(), json.loads(sys.argv[2]), Path(sys.argv[3])
    # Answers go out on a descriptor that no library can write to.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with cuda_asleep():
        preload(tests)
    check_cuda_has_not_started()
    gc.collect()
    gc.freeze()  # What is there before the fork is nothing for a child's collector.
    while line := sys.stdin.readline():
        request = json.loads(line)
        started = time.monotonic()
        log = logs / f"{request['command']}.log"
        reply = run_child(request["command"], request["limit_s"], log,
                          lambda command, pipe: test_process.main(command, tests, way, pipe))
        reply["seconds"] = round(time.monotonic() - started, 2)
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
