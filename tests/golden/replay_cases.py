# SPDX-License-Identifier: Apache-2.0
"""The golden tests of `replay` and `fit`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ReplayCase:
    """One command. The golden file is tests/golden/replay/<name>.txt; the file is named from fixtures/ on."""
    name: str
    command: str
    file: str
    options: tuple[str, ...] = ()
    stdin: str = ""

    @property
    def golden(self):
        return f"replay/{self.name}.txt"

    @property
    def arguments(self):
        file = "-" if self.stdin else f"fixtures/{self.file}"
        return [self.command, file, *self.options]


_OOM = "demo_oom.pickle"
_FRAGMENTED = "traces/recorded_run_clean.fst"
_RMM = "requests/rmm.csv"
_STALLOC = "requests/stalloc.txt"
_PLAIN = ("--policy", "best-fit", "--policy", "tlsf", "--policy", "buddy", "--policy", "never-reuse")

REPLAY_CASES = [
    ReplayCase("verify", "replay", _OOM, ("--verify",)),
    ReplayCase("verify_trace", "replay", _FRAGMENTED, ("--verify",)),
    ReplayCase("differs", "replay", "trap_unmatched_frees.pickle", ("--verify", "--exit-code")),
    ReplayCase("settings", "replay", _OOM,
               ("--conf", "expandable_segments:True", "--conf", "max_split_size_mb:64")),
    ReplayCase("policies", "replay", _OOM, _PLAIN),
    ReplayCase("policies_json", "replay", _OOM, (*_PLAIN, "--json", "--redact")),
    ReplayCase("refused.conf", "replay", _OOM, ("--conf", "max_split_size_mb:5")),
    ReplayCase("refused.policy", "replay", _OOM, ("--policy", "worst-fit")),
    ReplayCase("refused.no_history", "replay", "trap_no_history.pickle"),
    ReplayCase("rmm", "replay", _RMM, ("--memory", "200MiB", *_PLAIN)),
    ReplayCase("rmm.stdin", "fit", "", (), f"fixtures/{_RMM}"),
    ReplayCase("rmm.memory_unknown", "replay", _RMM, ("--json",)),
    ReplayCase("stalloc", "replay", _STALLOC, ("--memory", "64MiB", "--exit-code")),
    ReplayCase("fit", "fit", _OOM),
    ReplayCase("fit_json", "fit", _STALLOC, ("--json",)),
]
