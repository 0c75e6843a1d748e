# SPDX-License-Identifier: Apache-2.0
"""`rings`: what lies in a directory, in words and as JSON, and what goes with --reap."""

import json
import os
import unittest.mock

from support import TraceTestCase, run

_STATE_AT = 20
_REASON_AT = 1176
_UNRECORDED = 3
_FIELDS = {"path", "state", "bytes", "owner_uid", "pid", "rank", "device", "device_name", "command",
           "written_records", "held_records", "record_capacity", "dropped_records", "failures",
           "table_used_bytes", "table_bytes", "reason"}


class Listing(TraceTestCase):
    def listed(self, *options):
        report = json.loads(self.succeeds("rings", "--dir", self.rings, "--json", *options))
        self.assertEqual(report["schema"], 1)
        self.assertEqual(report["directory"], str(self.rings))
        return {os.path.basename(ring["path"]): ring for ring in report["rings"]}

    def unrecorded_ring(self):
        content = bytearray(self.ended_job(seed=1, steps=50).ring.read_bytes())
        content[_STATE_AT] = _UNRECORDED
        content[_REASON_AT:_REASON_AT + 8] = b"no\x1bspace"
        path = self.rings / "fragscope-1-0-00000001.ring"
        path.write_bytes(content)
        return path

    def test_each_state_has_its_word(self):
        alive = self.job(seed=1, steps=50, waits=1)
        dead = self.ended_job(seed=1, steps=50, end="fail-kill")
        unrecorded = self.unrecorded_ring()
        # Whoever starts to record removes rings that ended without a failure; so this comes last.
        ended = self.ended_job(seed=1, steps=50)
        unreadable = self.rings / "fragscope-1-0-00000002.ring"
        unreadable.write_bytes(b"nothing of the kind")
        (self.rings / "fragscope-1-0-00000003.ring").mkdir()
        (self.rings / "something-else").write_bytes(b"not listed")
        rings = self.listed()
        self.assertEqual(rings[alive.ring.name]["state"], "alive")
        self.assertEqual(rings[alive.ring.name]["pid"], alive.process.pid)
        self.assertEqual(rings[ended.ring.name]["state"], "ended")
        self.assertEqual(rings[dead.ring.name]["state"], "dead")
        self.assertGreaterEqual(rings[dead.ring.name]["failures"], 1)
        self.assertEqual(rings[unrecorded.name]["state"], "unrecorded")
        self.assertEqual(rings[unreadable.name]["state"], "unreadable")
        self.assertEqual(rings["fragscope-1-0-00000003.ring"]["state"], "unreadable")
        self.assertNotIn("something-else", rings)
        for name, ring in rings.items():
            if ring["state"] != "unreadable":
                self.assertEqual(set(ring), _FIELDS, name)
                self.assertEqual(ring["owner_uid"], os.geteuid())
                self.assertLessEqual(ring["held_records"], ring["record_capacity"])
            else:
                self.assertEqual(set(ring), {"path", "state", "bytes", "owner_uid", "problem"})
        text = self.succeeds("rings", "--dir", self.rings).decode()
        for word in ("alive, pid", "ended, pid", "dead, pid", "unrecorded, pid", "unreadable:",
                     "not recorded: no", "python train.py"):
            self.assertIn(word, text)
        self.assertNotIn("\x1b", text)
        alive.go_on()
        self.assertEqual(self.listed()[alive.ring.name]["state"], "ended")

    def test_a_rank_is_shown_and_stands_in_the_name(self):
        environment = {name: value for name, value in os.environ.items() if "RANK" not in name}
        for ranks, expected in (({"RANK": "11", "LOCAL_RANK": "3"}, 11), ({"LOCAL_RANK": "3"}, 3), ({}, None),
                                ({"RANK": "-1"}, None), ({"RANK": "1 "}, None), ({"RANK": "4294967295"}, None),
                                ({"RANK": "all", "LOCAL_RANK": "0"}, 0)):
            with self.subTest(ranks=ranks), unittest.mock.patch.dict(os.environ, {**environment, **ranks},
                                                                     clear=True):
                ring = self.ended_job(seed=1, steps=50).ring
                self.assertEqual(self.listed()[ring.name]["rank"], expected)
                text = self.succeeds("rings", "--dir", self.rings).decode()
                self.assertEqual(f"rank {expected}, device" in text, expected is not None)
                self.assertEqual(f"-0-rank{expected}-" in ring.name, expected is not None)

    def test_rings_of_a_job_in_a_folder_are_listed_and_removed_with_it(self):
        plain = self.rings
        self.rings = plain / "fragscope-run-1"
        self.rings.mkdir()
        ring = self.ended_job(seed=1, steps=50).ring
        self.rings = plain
        (plain / "fragscope-run-2").mkdir()
        (plain / "fragscope-run-3").symlink_to(plain / "fragscope-run-1")
        self.assertEqual([*self.listed()], [ring.name])
        self.succeeds("rings", "--dir", self.rings, "--reap")
        self.assertEqual(sorted(path.name for path in plain.iterdir()),
                         ["fragscope-run-2", "fragscope-run-3"])

    def test_redacted_it_names_no_command(self):
        self.ended_job(seed=1, steps=50)
        text = self.succeeds("rings", "--dir", self.rings, "--redact").decode()
        self.assertNotIn("train.py", text)
        for ring in self.listed("--redact").values():
            self.assertEqual(ring["command"], "(masked)")

    def test_reap_keeps_evidence_and_what_lives(self):
        alive = self.job(seed=1, steps=50, waits=1)
        failed = self.ended_job(seed=1, steps=50, end="fail")
        dead = self.ended_job(seed=1, steps=50, end="kill")
        clean = self.ended_job(seed=11, steps=50)
        self.assertEqual(self.listed()[clean.ring.name]["failures"], 0)
        self.assertEqual(set(self.listed("--reap")),
                         {job.ring.name for job in (alive, failed, dead)})
        self.assertFalse(clean.ring.exists())
        alive.go_on()

    def test_the_directory_may_be_empty_or_not_there(self):
        self.assertEqual(self.succeeds("rings", "--dir", self.rings).decode(),
                         f"no rings in {self.rings}\n")
        self.assertEqual(self.listed(), {})
        for options in ((), ("--reap",), ("--json",)):
            self.refuses("cannot be listed: No such file or directory",
                         "rings", "--dir", self.folder / "none", *options)

    def test_the_environment_names_the_directory(self):
        job = self.ended_job(seed=1, steps=50)
        os.environ["FRAGSCOPE_RING_DIR"] = str(self.rings)
        self.addCleanup(os.environ.pop, "FRAGSCOPE_RING_DIR")
        self.assertIn(job.ring.name, self.succeeds("rings").decode())
        code, _, err = run("rings", "--dir", "")
        self.assertIn(code, (0, 1), err)
