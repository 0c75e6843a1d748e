# SPDX-License-Identifier: Apache-2.0
"""`run` around commands that record, fail, are killed or do neither: ends as they do, and leaves files."""

import json
import os
from pathlib import Path
import signal
import subprocess
import unittest.mock

import support
from support import TraceTestCase, signals, wait_until

# Ends with the code that is asked for once there is nothing to read any more.
RECORDED = ('"$0" --directory "$(echo "$FRAGSCOPE_RUN" | sed "s/^fragscope_dir:\\([^,]*\\).*/\\1/")" "$@" >&2; '
            "code=$?; exit ${END:-$code}")


class RunTestCase(TraceTestCase):
    def setUp(self):
        super().setUp()
        environment = {**{name: text for name, text in os.environ.items() if "RANK" not in name},
                       "FRAGSCOPE_RING_DIR": str(self.rings)}
        patched = unittest.mock.patch.dict(os.environ, environment, clear=True)
        patched.start()
        self.addCleanup(patched.stop)
        self.output = self.folder / "job.fst"

    def run_job(self, *command, options=(), cwd=None):
        """Exit code, standard output and standard error."""
        words = [support.TOOL, "run", "--out", self.output, *options, "--", *command]
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60, check=False, cwd=cwd)
        return done.returncode, done.stdout, done.stderr

    def recorded(self, *options, run_options=(), **job):
        arguments = [word for name, value in job.items() for word in (f"--{name}", value)]
        return self.run_job("sh", "-c", RECORDED, Path(support.JOB).resolve(), *arguments, *options,
                            options=run_options)

    def nothing_is_left(self):
        self.assertEqual([*self.rings.iterdir()], [])


class Ends(RunTestCase):
    def test_the_exit_code_is_the_commands(self):
        for code in (0, 1, 7, 126, 255):
            got, out, err = self.run_job("sh", "-c", f"echo out; echo err >&2; exit {code}")
            self.assertEqual((got, out), (code, "out\n"))
            self.assertTrue(err.startswith("err\n"))
            self.assertEqual(f"the job ended with exit code {code}" in err, code != 0)
            self.assertIn("nothing was recorded", err)
            self.assertFalse(self.output.exists())
            self.nothing_is_left()

    def test_the_signal_is_the_commands(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT, signal.SIGPIPE):
            got, _, err = self.run_job("sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual(got, -number)
            self.assertIn(f"the job ended with signal {int(number)} (", err)
            self.nothing_is_left()

    def test_what_cannot_be_started_is_said_as_by_a_shell(self):
        for command, code, words in (("no-such-command", 127, "No such file"), ("/", 126, "Permission denied")):
            got, _, err = self.run_job(command)
            self.assertEqual(got, code)
            self.assertIn(f"fragscope: {command}: cannot be run: {words}", err)
            self.assertEqual(err.count("\n"), 1, err)
            self.assertFalse(self.output.exists())
            self.nothing_is_left()

    def test_arguments_and_input_reach_the_command(self):
        words = ["-x", "--", "--out", "a b", "", "*"]
        done = subprocess.run([support.TOOL, "run", "--out", str(self.output), "--", "sh", "-c",
                               'for word; do echo "<$word>"; done; cat', "sh", *words], input="typed",
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "".join(f"<{word}>\n" for word in words) + "typed")

    def test_signals_reach_the_command_once(self):
        counting = ('trap "echo int" INT; trap "echo usr" USR1; trap "echo term; exit 5" TERM; echo ready; '
                    "while :; do sleep 0.05; done")
        job = subprocess.Popen([support.TOOL, "run", "--out", str(self.output), "--", "sh", "-c", counting],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: job.poll() is None and job.kill())
        self.assertEqual(job.stdout.readline(), "ready\n")
        for number, word in ((signal.SIGINT, "int"), (signal.SIGUSR1, "usr")):
            job.send_signal(number)
            self.assertEqual(job.stdout.readline(), word + "\n")
        job.send_signal(signal.SIGTERM)
        rest, _ = job.communicate(timeout=60)
        self.assertEqual((rest, job.returncode), ("term\n", 5))

    def test_ctrl_c_of_a_terminal_reaches_the_command_once(self):
        # It ends by the trap alone: a key that comes before a `read` would leave that waiting.
        counting = ('trap "echo int; got=1" INT; echo ready; '
                    'while [ -z "$got" ]; do sleep 0.05; done; sleep 0.2; exit 3')
        master, slave = os.openpty()
        job = subprocess.Popen([support.TOOL, "run", "--out", str(self.output), "--", "sh", "-c", counting],
                               stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               start_new_session=True,
                               preexec_fn=lambda: __import__("fcntl").ioctl(slave, 0x540E, 0))  # TIOCSCTTY
        self.addCleanup(lambda: job.poll() is None and job.kill())
        os.close(slave)
        self.assertEqual(job.stdout.readline(), "ready\n")
        os.write(master, b"\x03")
        rest, _ = job.communicate(timeout=60)
        os.close(master)
        self.assertEqual((rest, job.returncode), ("int\n", 3))


class Files(RunTestCase):
    def test_the_trace_is_drained_and_the_ring_removed(self):
        code, _, err = self.recorded(seed=7, steps=600)
        self.assertEqual(code, 0, err)
        self.nothing_is_left()
        report = self.analyzed(self.output)
        self.assertEqual(signals(report), [])
        self.assertIn(f"fragscope: {self.output}: ", err)
        self.assertIn(" records, ", err)

    def test_a_job_that_dies_after_a_failed_request_gets_its_verdict(self):
        for end in ("fail", "fail-kill"):
            with self.subTest(end=end), unittest.mock.patch.dict(os.environ, {"END": "4"}):
                code, _, err = self.recorded(seed=7, steps=600, end=end, run_options=["--force"])
                self.assertEqual(code, 4)
                self.nothing_is_left()
                verdict = self.analyzed(self.output)["failures"][-1]["verdict"]
                self.assertIn(f"{self.output}: {verdict['kind']} ({verdict['certainty']}): 2.00 TiB failed on GPU 0",
                              err)
                text = " ".join(err.split())
                self.assertIn(" ".join(verdict["text"].split()), text)
                self.assertIn(f"fragscope analyze {self.output} shows what this rests on", err)

    def test_a_failure_that_was_survived_is_no_death(self):
        code, _, err = self.recorded(seed=7, steps=600, end="fail")
        self.assertEqual(code, 0)
        failures = len(self.analyzed(self.output)["failures"])
        self.assertGreater(failures, 1)
        self.assertIn(f"{failures} requests failed and the job went on; fragscope analyze {self.output} says why", err)
        self.assertNotIn("2.00 TiB", err)

    def test_several_traces_have_names_of_their_own(self):
        job = Path(support.JOB).resolve()
        both = (f'd="${{FRAGSCOPE_RUN#fragscope_dir:}}"; RANK=1 "{job}" --directory "$d" --end fail & '
                f'RANK=0 "{job}" --directory "$d" --end fail & wait')
        code, _, err = self.run_job("sh", "-c", both)
        self.assertEqual(code, 0, err)
        files = sorted(self.folder.glob("*.fst"))
        self.assertEqual([path.name.split(".pid")[0] for path in files], ["job.rank0.gpu0", "job.rank1.gpu0"])
        for path in files:
            self.assertEqual(signals(self.analyzed(path)), [])
        self.nothing_is_left()

    def test_a_file_that_is_there_stays_unless_forced(self):
        self.output.write_text("precious")
        code, out, err = self.run_job("echo", "ran")
        self.assertEqual((code, out), (1, ""), "nothing is started")
        self.assertIn("is there already (--force overwrites it)", err)
        self.assertEqual(self.output.read_text(), "precious")
        self.nothing_is_left()
        code, _, _ = self.recorded(seed=7, steps=50, run_options=["--force"])
        self.assertEqual(code, 0)
        self.analyzed(self.output)

    def test_without_a_name_the_file_lies_where_it_was_started(self):
        words = [Path(support.TOOL).resolve(), "run", "--", "sh", "-c", RECORDED, Path(support.JOB).resolve(),
                 "--steps", "50"]
        done = subprocess.run([*map(str, words)], cwd=self.folder, capture_output=True, text=True, check=True)
        file, = self.folder.glob("fragscope-*.fst")
        self.assertIn(f"fragscope: {file.name}: ", done.stderr)

    def test_a_place_that_cannot_be_had_starts_nothing(self):
        with unittest.mock.patch.dict(os.environ, {"FRAGSCOPE_RING_DIR": str(self.folder / "missing")}):
            code, out, err = self.run_job("echo", "ran")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("FRAGSCOPE_RING_DIR names another place", err)
        self.assertEqual(err.count("\n"), 1)
        self.output = self.folder / "missing" / "job.fst"
        code, out, err = self.run_job("echo", "ran")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("job.fst: cannot be made: No such file", err)
        self.nothing_is_left()

    def test_a_full_disk_costs_the_file_and_not_the_job(self):
        self.output = Path("/dev/full")
        code, out, err = self.run_job("echo", "ran")
        self.assertEqual((code, out), (1, ""), "a device is no place for a file")

    def test_a_ring_that_somebody_still_writes_stays(self):
        lingering = (f'"{Path(support.JOB).resolve()}" --directory "${{FRAGSCOPE_RUN#fragscope_dir:}}" --waits 1 '
                     '<"$0" >"$1" 2>/dev/null & while ! grep -q ready "$1"; do sleep 0.02; done')
        pipe, said = self.folder / "pipe", self.folder / "said"
        os.mkfifo(pipe)
        writer = os.open(pipe, os.O_RDWR)
        said.write_text("")
        code, _, err = self.run_job("sh", "-c", lingering, pipe, said)
        self.assertEqual(code, 0, err)
        ring = Path(said.read_text().split()[1])
        self.assertTrue(ring.exists())
        self.analyzed(self.output)
        listed = json.loads(self.succeeds("rings", "--json"))["rings"]
        self.assertEqual([(entry["path"], entry["state"]) for entry in listed], [(str(ring), "alive")])
        os.write(writer, b"\n")
        wait_until(lambda: "written" in said.read_text(), "the end of the job")
        os.close(writer)


class Settings(RunTestCase):
    def test_the_loader_is_told_what_was_asked_for(self):
        for options, words in (
                ((), ""), (("--allocator", "native"), ",backend:fragscope_attach"),
                (("--allocator", "fragscope", "--ring", "8MiB"), ",backend:fragscope,fragscope_ring:8MiB"),
                (("--stacks", "all", "--min-stack-size", "1MiB"),
                 ",fragscope_stacks:all,fragscope_min_stack_size:1MiB")):
            _, out, _ = self.run_job("printenv", "FRAGSCOPE_RUN", options=options)
            folder, _, rest = out.strip().partition(",")
            self.assertRegex(folder, f"^fragscope_dir:{self.rings}/fragscope-run-[0-9]+-[A-Za-z0-9]+$")
            self.assertEqual("," + rest if rest else "", words)

    def test_other_choices_are_refused(self):
        for options in (("--allocator", "other"), ("--stacks", "some")):
            code, out, err = self.run_job("echo", "ran", options=options)
            self.assertEqual((code, out), (1, ""))
            self.assertEqual(err.count("\n"), 1)
        done = subprocess.run([support.TOOL, "run"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("COMMAND is required", done.stderr)
