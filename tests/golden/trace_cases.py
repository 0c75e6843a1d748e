# SPDX-License-Identifier: Apache-2.0
"""The golden tests of traces: which command on which file of fixtures/traces. How those were made
is in fixtures/README.md."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TraceCase:
    """One command on one trace. The golden file is tests/golden/traces/<trace>.<name>.txt."""
    trace: str
    name: str
    command: str
    options: tuple[str, ...] = ()
    stdin: str = ""

    @property
    def golden(self):
        return f"traces/{self.trace}.{self.name}.txt"

    @property
    def arguments(self):
        file = "-" if self.stdin else f"fixtures/traces/{self.trace}.fst"
        return [self.command, file, *self.options]


_CLEAN = "recorded_run_clean"
_KILLED = "recorded_run_killed_came_round"

TRACE_CASES = [
    TraceCase(_CLEAN, "dump", "dump"),
    TraceCase(_CLEAN, "dump_stacks_redact", "dump", ("--stacks", "--redact")),
    TraceCase(_CLEAN, "analyze", "analyze"),
    TraceCase(_CLEAN, "json", "analyze", ("--json",)),
    TraceCase(_CLEAN, "stdin", "analyze", ("--request", "1GiB"), f"fixtures/traces/{_CLEAN}.fst"),
    TraceCase(_CLEAN, "explain", "explain"),
    TraceCase(_KILLED, "analyze", "analyze"),
    TraceCase(_KILLED, "in_the_dark", "analyze", ("--request", "8MiB", "--at", "4600")),
]
