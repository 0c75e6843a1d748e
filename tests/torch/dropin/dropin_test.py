# SPDX-License-Identifier: Apache-2.0
"""Ours in the place of PyTorch's allocator: what holds for attach holds here, from the same programs."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "attach"))

import attach_test  # noqa: E402
from attach_test import fragscope  # noqa: E402


class DropIn(attach_test.Attach):
    way = "dropin"
    standing_signals = frozenset()

    # It can only come in before CUDA is used.
    test_a_running_process = None
    test_a_running_process_that_does_nothing_more = None

    def test_failures(self):
        snapshot = f"{self.directory}/snapshot.pickle"
        native = self.run_program("failure", "native", SNAPSHOT=snapshot)["messages"]
        said = self.run_program("failure", self.way, SNAPSHOT=snapshot)["messages"]
        ring, = self.rings()
        report = self.report()
        # The second message is of a request that was refused before anything was decided, and the
        # third failure has none here.
        for ours, theirs, event in zip(said, native, (0, None, 1, 3), strict=True):
            if event is None:
                self.assertEqual(ours, theirs)
                continue
            verdict = report["failures"][event]["verdict"]
            line = (f"\nfragscope: {verdict['kind']} ({verdict['certainty']}). {verdict['text']} "
                    f"fragscope analyze {ring['path']} says why.")
            self.assertEqual(ours, theirs + line)

        theirs = json.loads(fragscope("analyze", "--json", snapshot, "--device-total", "24GiB"))
        for mine, other in zip(report["failures"], theirs["failures"], strict=True):
            for key in ("kind", "certainty", "short_by_bytes"):
                self.assertEqual(mine["verdict"][key], other["verdict"][key])

    def test_late_comers_are_refused(self):
        output = self.run_program("late", self.way, code=0)
        self.assertIn("CUDA is in use already", output["refusal"])


del attach_test.Attach  # Its own tests run in a program of their own.

if __name__ == "__main__":
    unittest.main()
