# SPDX-License-Identifier: Apache-2.0
"""`replay`, `fit`, `stages`, `growth` and `diff` on what is damaged, foreign, absurd or empty: one
line that says where and what was expected, exit code 1, and nothing on standard output."""

import itertools
import json
import os
from pathlib import Path
import pickle
import subprocess

import support
from support import TraceTestCase, run

FIXTURES = Path("fixtures")
DEMO = FIXTURES / "demo_oom.pickle"
CLEAN = FIXTURES / "traces/recorded_run_clean.fst"
LEAK = FIXTURES / "traces/server_leak.fst"
CACHE = FIXTURES / "traces/server_cache.fst"
RMM = FIXTURES / "requests/rmm.csv"
STALLOC = FIXTURES / "requests/stalloc.txt"
HEADER = b"Thread,Time,Action,Pointer,Size,Stream\n"


class Files(TraceTestCase):
    COMMANDS = ("replay", "fit", "stages", "growth")

    def refused_by_all(self, path, expected):
        for command in self.COMMANDS:
            with self.subTest(command=command, file=path):
                self.refuses(expected, command, path)
        for files in ((path, DEMO), (DEMO, path)):
            with self.subTest(command="diff", files=files):
                self.refuses(expected, "diff", *files)

    def test_bad_snapshots_are_refused_by_name(self):
        for path in sorted((FIXTURES / "bad").iterdir()):
            self.refused_by_all(path, f"fragscope: {path}: ")

    def test_a_trace_that_is_cut_says_so_or_is_read(self):
        whole = LEAK.read_bytes()
        for size in (0, 1, 7, 8, 100, 1479, 1480):
            with self.subTest(size=size):
                self.refused_by_all(self.file("cut.fst", whole[:size]), "cut.fst")
        for size in range(1500, len(whole), 997):
            path = self.file("cut.fst", whole[:size])
            for command in self.COMMANDS:
                with self.subTest(command=command, size=size):
                    code, _, err = run(command, path)
                    self.assertIn(code, (0, 1), err)
                    self.assertEqual(err.count("\n"), code, err)

    def test_folders_and_missing_files(self):
        self.refused_by_all(FIXTURES, "is a directory")
        self.refused_by_all(self.folder / "none", "cannot be opened")

    def test_other_text_is_told_from_a_log_of_requests(self):
        path = self.file("text", b"hello\n")
        self.refuses("or the log of requests that RMM or STAlloc writes", "replay", path)
        self.refuses("or the log of requests that RMM or STAlloc writes", "fit", path)

    def test_wrong_lines_of_logs_are_numbered(self):
        for line in (b"1,2,allocate,0x5,18446744073709551616,0", b"1,2,allocate,0x5,-1,0",
                     b"1,2,allocate,zz,1,0", b"1,2,move,0x5,1,0", b"1,2,free,0x5,1", b"\x00\x01",
                     b"1,2,allocate,0x5,1,0x10000000000000000"):
            with self.subTest(line=line):
                self.refuses("line 2: expected Thread,Time", "fit", self.file("x", HEADER + line + b"\n"))
        for line in (b"1 0x5 -7 0", b"1 0x5 9223372036854775808 0", b"2 0x5 7 0", b"1 0x5 7"):
            with self.subTest(line=line):
                text = b"1 0x1 8 0\n" + line + b"\n"
                self.refuses("line 2: expected 0|1 POINTER", "fit", self.file("x", text))

    def damaged(self, trace):
        content = bytearray(trace.read_bytes())
        middle = len(content) * 3 // 4
        content[middle:middle + 40] = bytes(each ^ 0xff for each in content[middle:middle + 40])
        return self.file("damaged.fst", bytes(content))

    def test_failures_whose_records_are_lost_are_told(self):
        trace = self.damaged(CLEAN)
        for command in ("analyze", "timeline"):
            said = self.succeeds(command, trace).decode()
            self.assertIn("3 failed requests that cannot be judged (see EVIDENCE)", said)
            self.assertIn("failures-missing: device 0: 3 failed requests", said)
        self.assertEqual(support.run("analyze", trace, "--exit-code")[0], 20)
        self.assertEqual(support.run("stages", trace, "--exit-code")[0], 10)
        self.assertEqual(self.analyzed(trace)["input"]["unjudged_failures"], 3)

    def test_lost_records_alone_hide_no_failure(self):
        trace = self.damaged(CACHE)
        said = self.succeeds("analyze", trace).decode()
        self.assertIn(": no failed request: ", said.splitlines()[0])
        self.assertIn("lost-records", said)
        self.assertEqual(support.run("analyze", trace, "--exit-code")[0], 0)

    def test_a_job_is_not_started_with_settings_that_its_loader_refuses(self):
        for option in ("--ring", "--min-stack-size"):
            for size in ("1MB", "lots", "-1", "", "MiB", ".5GiB", "1.", "1.2.3", "1e3", "64 MiB", "1" * 16):
                with self.subTest(option=option, size=size):
                    self.refuses("expected a size, as 64MiB or 4194304", "run", f"{option}={size}", "--", "true")

    def test_a_misspelt_command_is_told_what_there_is(self):
        for word in ("analyse", "help", ""):
            with self.subTest(word=word):
                self.refuses(f"{word}: there is no such command; there are analyze, explain, ", word, DEMO)

    def test_a_reader_may_stop_early(self):
        for command, path in (("dump", CLEAN), ("analyze", LEAK), ("timeline", DEMO), ("replay", LEAK)):
            with self.subTest(command=command):
                reader, writer = os.pipe()
                os.close(reader)
                try:
                    done = subprocess.run([support.TOOL, command, path], stdout=writer, stderr=subprocess.PIPE,
                                          check=False, timeout=60)
                finally:
                    os.close(writer)
                self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_standard_input_is_read_once(self):
        content = LEAK.read_bytes()
        for arguments in (("diff", "-", "-"), ("growth", "-", LEAK, "-"), ("analyze", "-", "-"),
                          ("explain", "-", "-")):
            with self.subTest(arguments=arguments):
                self.refuses("standard input can be read once", *arguments, stdin=content)
        self.succeeds("diff", "-", LEAK, stdin=content)

    def test_pipes_are_read(self):
        for command, path in itertools.product(("replay", "fit"), (RMM, STALLOC, LEAK)):
            with self.subTest(command=command, file=path):
                self.succeeds(command, "-", stdin=path.read_bytes())

    def test_files_without_history_are_refused(self):
        for command in self.COMMANDS:
            with self.subTest(command=command):
                self.refuses("has no history", command, FIXTURES / "trap_no_history.pickle")

    def test_of_several_devices_one_is_to_be_named(self):
        path = FIXTURES / "trap_two_devices.pickle"
        for command in self.COMMANDS:
            with self.subTest(command=command):
                self.refuses("--device N says which", command, path)
                self.succeeds(command, path, "--device", "1")
                self.refuses("device 2 has no history", command, path, "--device", "2")
                self.refuses("--device", command, path, "--device", "99999999999")


class Histories(TraceTestCase):
    """Events that contradict each other are read, and harm nothing."""

    def test_an_address_space_that_no_request_fits_into_is_reserved_twice(self):
        # The rules of PyTorch 2.6, run again, ask for it twice, and the recording has one answer.
        snapshot = pickle.loads((FIXTURES / "verdict_stranded_expandable.pickle").read_bytes())
        address = snapshot["segments"][0]["blocks"][1]["address"]
        snapshot["device_traces"] = [[
            {"action": "segment_map", "addr": address, "size": 1000 << 20, "stream": 0,
             "time_us": 1, "frames": []},
            {"action": "oom", "size": (1 << 60) - 1, "device_free": (1 << 63) - 1, "stream": 0,
             "time_us": 2, "frames": []}]]
        path = self.file("twice.pickle", pickle.dumps(snapshot, protocol=4))
        self.assertEqual(self.analyzed(path)["failures"][0]["request"]["size_bytes"], (1 << 60) - 1)
        self.succeeds("timeline", path)


class Options(TraceTestCase):
    def test_sizes_that_are_none(self):
        for text in ("", "-1", "nan", "inf", "1e30GiB", "12GB", "1.5", "0x10", "18446744073709551615", "five",
                     "1 GiB GiB", "80%"):
            with self.subTest(text=text):
                self.refuses("--memory: '", "replay", DEMO, "--memory", text)
                for command in ("replay", "analyze", "timeline") if text else ("replay",):
                    self.refuses(f"--limit {text}: expected a size, or a fraction above 0 and up to 1",
                                 command, DEMO, "--limit", text)

    def test_a_limit_may_be_a_fraction_of_the_device(self):
        def reserved(*options):
            return json.loads(self.succeeds("replay", DEMO, "--json", *options))["variants"][0]

        half = reserved("--memory", "8GiB", "--limit", "0.5")
        self.assertEqual(half, reserved("--memory", "8GiB", "--limit", "4GiB"))
        self.assertNotEqual(half, reserved("--memory", "8GiB", "--limit", "0.01"))
        self.refuses("does not show how large the device is", "replay", DEMO, "--limit", "0.5")

    def test_nothing_of_a_device_fits_nothing(self):
        for option in ("--memory", "--limit"):
            with self.subTest(option=option):
                report = json.loads(self.succeeds("replay", DEMO, option, "0", "--json"))
                self.assertFalse(report["variants"][0]["fits"])

    def test_others_memory_from_an_event_that_there_is(self):
        for text in ("", "@5", "2GiB@", "2GiB@-1", "2GiB@x", "2GiB@1@2", "2GiB@99999999999999999999"):
            with self.subTest(text=text):
                self.refuses("expected SIZE or SIZE@EVENT", "replay", DEMO, "--outside", text)
        self.refuses("expected an event up to 240", "replay", DEMO, "--outside", "2GiB@241")
        self.succeeds("replay", DEMO, "--outside", "2GiB@240")

    def test_options_that_no_pytorch_takes(self):
        for conf in ("garbage", "max_split_size_mb:1", "max_split_size_mb:99999999999999999999",
                     "roundup_power2_divisions:3", "per_process_memory_fraction:2", ":", ",,:"):
            for command in ("replay", "fit"):
                with self.subTest(command=command, conf=conf):
                    self.refuses(f"--conf {conf}: ", command, DEMO, "--conf", conf)

    def test_names_that_are_none(self):
        self.refuses("--policy: worst not in", "replay", DEMO, "--policy", "worst")
        self.refuses("--period", "growth", LEAK, "--period", "0")
        self.refuses("--at", "diff", DEMO, DEMO, "--at", "then")
        self.refuses("no mark of that name", "growth", LEAK, "--marks", "none")

    def test_a_log_of_requests_has_neither_decisions_nor_devices(self):
        self.refuses("--verify: ", "replay", RMM, "--verify")
        for command in ("replay", "fit"):
            with self.subTest(command=command):
                self.refuses("--device: ", command, STALLOC, "--device", "0")

    def test_a_log_without_a_request_has_no_smallest_device(self):
        for content in (HEADER, HEADER + b"1,2,free,0x5,7,0\n", b"Iteration Index : 0\n"):
            with self.subTest(content=content):
                self.refuses("expected a request", "fit", self.file("log", content))

    def test_what_no_device_serves_is_said(self):
        line = b"1,2,allocate failure,(nil),18446744073709551615,0\n"
        out = self.succeeds("fit", self.file("log", HEADER + line)).decode()
        self.assertIn("Under none of them", out)


class Variants(TraceTestCase):
    def names(self, *options):
        report = json.loads(self.succeeds("replay", DEMO, "--json", *options))
        return sorted(variant["name"] for variant in report["variants"])

    def test_what_is_said_twice_runs_once(self):
        self.assertEqual(self.names("--conf", "", "--conf", ""), ["as recorded", "the defaults"])
        self.assertEqual(self.names("--policy", "buddy", "--policy", "buddy"), ["as recorded", "buddy"])
        fits = json.loads(self.succeeds("fit", RMM, "--json", "--conf", "", "--conf", "max_split_size_mb:64"))
        names = [fit["name"] for fit in fits["fits"]]
        self.assertEqual(len(names), len(set(names)))

    def test_rules_of_several_versions_are_tried_each(self):
        self.assertEqual(self.names("--policy", "2.6", "--policy", "2.15", "--conf", ""),
                         ["rules of PyTorch 2.15", "rules of PyTorch 2.6",
                          "the defaults, rules of PyTorch 2.15", "the defaults, rules of PyTorch 2.6"])

    def test_other_limits_are_not_as_recorded(self):
        for options in (("--limit", "9GiB"), ("--memory", "9GiB"), ("--outside", "1GiB")):
            with self.subTest(options=options):
                self.assertEqual(self.names(*options), ["recorded settings"])

    def test_a_recorded_share_of_the_device_counts(self):
        path = FIXTURES / "torch/limit_in_settings.pickle.zst"  # A quarter of the device.
        fits = json.loads(self.succeeds("fit", path, "--json"))["fits"]
        sizes = {fit["name"]: fit["smallest_device_bytes"] for fit in fits}
        # What 26 GiB allow: 6.5 GiB; without the share, those alone.
        self.assertEqual(sizes["as recorded"], 4 * sizes["the defaults"])
        replayed = json.loads(self.succeeds("replay", path, "--memory", "24GiB", "--json"))["variants"]
        self.assertEqual(replayed[0]["first_failure"]["verdict"]["kind"], "limit")
        unknown = json.loads(self.succeeds("replay", path, "--json"))
        self.assertEqual(unknown["variants"], [])


class Output(TraceTestCase):
    COMMANDS = (("replay", DEMO), ("fit", RMM), ("stages", LEAK), ("growth", LEAK),
                ("growth", LEAK, LEAK, LEAK), ("diff", DEMO, LEAK))

    def test_a_reader_that_has_gone_is_an_error_in_one_line(self):
        for command, *files in self.COMMANDS:
            with self.subTest(command=command), open("/dev/full", "wb") as full:
                done = subprocess.run([support.TOOL, command, *map(str, files)], stdout=full,
                                      stderr=subprocess.PIPE, timeout=60, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr.count(b"\n"), 1)

    def test_redacted_output_names_no_file(self):
        secret = self.folder / "customer"
        secret.mkdir()
        for command, *files in self.COMMANDS:
            copies = [secret / path.name for path in files]
            for path, copy in zip(files, copies):
                copy.write_bytes(path.read_bytes())
            for form in ((), ("--json",)):
                with self.subTest(command=command, form=form):
                    out = self.succeeds(command, *copies, "--redact", *form).decode()
                    for word in ("customer", str(self.folder), "serve.py", "train.py", "/srv"):
                        self.assertNotIn(word, out)

    def test_names_of_files_do_not_steer_the_terminal(self):
        for command, *files in self.COMMANDS:
            copies = [self.folder / ("a\x1b[31m\n" + path.name) for path in files]
            for path, copy in zip(files, copies):
                copy.write_bytes(path.read_bytes())
            with self.subTest(command=command):
                self.assertNotIn(b"\x1b", self.succeeds(command, *copies))
                for line in self.succeeds(command, *copies, "--json").splitlines():
                    json.loads(line)
