# SPDX-License-Identifier: Apache-2.0
"""The package in a job: what is switched on by which variable, what stays as it was, and what is said."""

import itertools
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[3] / "allocator" / "python"))

from installed import TOOL, InstalledTest  # noqa: E402

CUDA, HIP, GENERIC = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
MIB = 1 << 20

# Trains a little, and tells what it sees. It sleeps before it ends: PyTorch 2.15 aborts, with its own
# allocator too, if a program ends while a thread of the last backward() has not come to rest.
JOB = """
import json, os, sys, time
before = {name: text for name, text in os.environ.items() if "ALLOC_CONF" in name}
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model(torch.randn(16, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
after = {name: text for name, text in os.environ.items() if "ALLOC_CONF" in name}
def in_c(name):
    import ctypes
    get = ctypes.CDLL(None).getenv
    get.restype = ctypes.c_char_p
    return (get(name.encode()) or b"").decode()
settings = torch.cuda.memory._snapshot()["allocator_settings"]
print(json.dumps({
    "before": before, "after": after, "in_c": {name: in_c(name) for name in after},
    "modules": sorted(name for name in sys.modules if "fragscope" in name),
    "ring": getattr(sys.modules.get("fragscope"), "ring_path", lambda: None)(),
    "max_split_size": settings["max_split_size"], "text": settings["PYTORCH_CUDA_ALLOC_CONF"],
    "backend": torch.cuda.get_allocator_backend(),
    "allocated": torch.cuda.memory_allocated(), "peak": torch.cuda.max_memory_allocated()}), flush=True)
time.sleep(0.2)
"""
# Uses CUDA, and tells the error that comes of it, if any.
PROBE = """
import torch
try:
    torch.empty(1, device="cuda")
    print("none")
except Exception as error:
    print(type(error).__name__, error)
"""
# Looks at many environments, each in a child that has PyTorch already, but not CUDA, and does there what
# PyTorch's import does in the end.
EACH = """
import json, os, sys, tempfile
import torch, fragscope.loader
def look(environ, result):
    os.environ.update(environ)
    with tempfile.TemporaryFile() as stderr:
        os.dup2(stderr.fileno(), 2)
        fragscope.loader.autoload()
        seen = {"error": "", "computed": torch.ones(2).sum().item()}
        try:
            torch.empty(1, device="cuda")
            settings = torch.cuda.memory._snapshot()["allocator_settings"]
            seen["split"] = settings["max_split_size"]
        except Exception as error:
            seen["error"] = f"{type(error).__name__} {error}"
        stderr.seek(0)
        seen |= {"recorded": bool(fragscope.ring_path()), "stderr": stderr.read().decode(),
                 "whole": all(os.environ[name] == text for name, text in environ.items())}
    result.write_text(json.dumps(seen))
import pathlib
result = pathlib.Path(tempfile.mkdtemp()) / "result"
all_seen = []
for environ in json.loads(sys.argv[1]):
    if os.fork() == 0:
        look(environ, result)
        os._exit(0)
    os.wait()
    all_seen.append(json.loads(result.read_text()))
    result.unlink()
print(json.dumps(all_seen))
"""


def is_new():
    import torch

    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 10)


ERROR = "ValueError" if is_new() else "RuntimeError"


class LoadingTest(InstalledTest):
    def each(self, environs):
        return json.loads(self.output_of("-c", EACH, json.dumps(environs)))


class SwitchedOn(LoadingTest):
    def job(self, *options, **environment):
        return json.loads(self.output_of(*options, "-c", JOB, **environment))

    def check_recorded(self, seen, text):
        is_attached = "fragscope_attach" in text
        self.assertEqual(seen["before"], seen["after"])
        self.assertEqual(seen["in_c"], seen["after"])
        self.assertEqual(seen["after"][CUDA], text)
        ring, = self.listed()
        self.assertEqual(seen["ring"], ring["path"])
        self.assertGreater(ring["written_records"], 50)
        report = self.analyzed(ring["path"])
        self.check_trust(report, is_attached)
        self.assertEqual(report["devices"][0]["peak"]["allocated_bytes"], seen["peak"])

    def test_either_backend_records_and_the_variable_stays_whole(self):
        native = self.job()
        for backend in ("fragscope_attach", "fragscope"):
            text = f"max_split_size_mb:64,backend:{backend},fragscope_ring:1MiB"
            with self.subTest(backend=backend):
                seen = self.job(**{CUDA: text})
                self.check_recorded(seen, text)
                self.assertEqual((seen["max_split_size"], seen["text"]), (64 * MIB, "max_split_size_mb:64"))
                self.assertEqual((seen["allocated"], seen["peak"]), (native["allocated"], native["peak"]))
                for ring in self.rings.iterdir():
                    ring.unlink()

    def test_isolated_interpreters_record_too(self):
        for options in (("-I",), ("-E",), ("-s",), ("-I", "-E", "-s")):
            with self.subTest(options=options):
                self.check_recorded(self.job(*options, **{CUDA: "backend:fragscope_attach"}),
                                    "backend:fragscope_attach")

    def test_it_does_without_pytorchs_own_autoload(self):
        self.check_recorded(self.job(**{CUDA: "backend:fragscope_attach", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}),
                            "backend:fragscope_attach")

    def test_to_ask_where_pytorch_is_imports_nothing(self):
        ask = "import importlib.util; assert importlib.util.find_spec('torch')\n"
        done = self.output_of("-c", ask + PROBE, **{CUDA: "backend:fragscope_attach",
                                                    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
        self.assertEqual(done.splitlines()[-1], "none")
        self.assertEqual(len(self.listed()), 1)

    def test_settings_of_the_job_count_until_cuda_is_used(self):
        late = ("import os, torch\n"
                "os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'max_split_size_mb:64,expandable_segments:True'\n"
                "x = torch.empty(1, device='cuda')\n"
                "told = torch.cuda.memory._snapshot()\n"
                "print(told['allocator_settings']['max_split_size'], told['segments'][0]['is_expandable'])\n")
        for text in ("backend:fragscope", "backend:fragscope_attach,garbage_collection_threshold:0.9"):
            with self.subTest(text=text):
                self.assertEqual(self.output_of("-c", late, **{CUDA: text}).splitlines()[-1], f"{64 * MIB} True")

    def test_it_does_without_the_hook_at_start(self):
        hook = next(self.folder.glob("environment/lib/python3*/site-packages/fragscope.pth"))
        text = hook.read_text()
        hook.unlink()
        self.addCleanup(hook.write_text, text)
        self.check_recorded(self.job(**{CUDA: "backend:fragscope_attach"}), "backend:fragscope_attach")
        # Without both nobody hears the token: PyTorch's own error.
        done = self.output_of("-c", PROBE, **{CUDA: "backend:fragscope_attach",
                                              "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
        self.assertIn(f"{ERROR} Unknown allocator backend", done)

    def test_without_our_token_only_the_loader_is_imported(self):
        for environment in ({}, {CUDA: "max_split_size_mb:64"}, {GENERIC: ""}):
            with self.subTest(environment=environment):
                seen = self.job(**environment)
                self.assertEqual(seen["modules"], ["fragscope", "fragscope.loader"])
                self.assertEqual((seen["ring"], seen["backend"]), (None, "native"))
                self.assertEqual([*self.rings.iterdir()], [])
        modules = self.output_of("-c", "import sys; print([m for m in sys.modules if 'fragscope' in m])")
        self.assertEqual(modules, "[]\n")

    def test_a_job_may_name_its_stages_recorded_or_not(self):
        program = ("import fragscope, sys\n"
                   "assert 'torch' not in sys.modules\n"
                   "import torch\n"
                   "x = torch.empty(1, device='cuda')\n"
                   "with fragscope.stage('reading a\\u00f6 checkpoint'):\n"
                   "    fragscope.mark('here')\n"
                   "print(fragscope.ring_path(0), fragscope.ring_path(1), fragscope.__version__)\n")
        self.assertTrue(self.output_of("-c", program).startswith("None None "))
        ring = self.output_of("-c", program, **{CUDA: "backend:fragscope_attach"}).split()[0]
        dump = subprocess.run([TOOL, "dump", ring], capture_output=True, text=True, check=True).stdout
        for words in ('mark begin "reading a\u00f6 checkpoint"', 'mark point "here"',
                      'mark end "reading a\u00f6 checkpoint"'):
            self.assertIn(words, dump)

    def test_what_is_said_without_a_record_takes_no_memory(self):
        program = ("import fragscope, resource\n"
                   "text = 'x' * (10 << 20)\n"
                   "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
                   "for number in range(64): fragscope.mark(f'{number}{text}')\n"
                   "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n")
        self.assertLess(int(self.output_of("-c", program)), 100 << 10)

    def test_what_is_said_early_or_late_is_kept(self):
        program = ("import fragscope, threading, time\n"
                   "for number in range(100): fragscope.mark(f'too early {number}')\n"
                   "begin = time.time()\n"
                   "with fragscope.stage('importing'):\n"
                   "    import torch\n"
                   "    imported = time.time()\n"
                   "fragscope.mark('imported')\n"
                   "kept = torch.empty(1, device='cuda')\n"
                   "fragscope.mark('used')\n"
                   "with torch.profiler.record_function('the last'): pass\n"
                   "print(begin, imported, time.time(), threading.get_native_id())\n")
        for backend in ("fragscope_attach", "fragscope"):
            with self.subTest(backend=backend):
                output = self.output_of("-c", program, **{CUDA: f"backend:{backend}"}).split()
                begin, imported, used = map(float, output[:3])
                ring, = self.listed()
                lines = [line.split() for line in
                         subprocess.run([TOOL, "dump", ring["path"]], capture_output=True, text=True,
                                        check=True).stdout.splitlines() if " mark " in line]
                marks = [(words[3], " ".join(words[4:-1]), float(words[1])) for words in lines]
                self.assertEqual({words[-1] for words in lines}, {f"thread={output[3]}"})
                # The last 64 of what was said before PyTorch was there.
                self.assertEqual([mark[:2] for mark in marks],
                                 [*(("point", f'"too early {number}"') for number in range(37, 100)),
                                  ("begin", '"importing"'), ("end", '"importing"'), ("point", '"imported"'),
                                  ("point", '"used"'), ("begin", '"the last" annotation'),
                                  ("end", '"the last" annotation')])
                times = [mark[-1] for mark in marks]
                self.assertEqual(times, sorted(times))
                self.assertAlmostEqual(times[63], begin, delta=0.05 + (imported - begin) / 20)
                self.assertAlmostEqual(times[64], imported, delta=0.05)
                self.assertAlmostEqual(times[-1], used, delta=0.05)
                for path in self.rings.glob("*.ring"):
                    path.unlink()

    def test_a_running_process_can_be_switched_on(self):
        program = ("import fragscope, torch\n"
                   "x = torch.empty(1 << 20, device='cuda')\n"
                   "print(fragscope.attach(ring='1MiB', stacks='off'), fragscope.attach())\n"
                   "y = torch.empty(1 << 20, device='cuda')\n"
                   "print(fragscope.ring_path())\n")
        lines = self.output_of("-c", program).splitlines()
        self.assertEqual(lines[0], "True True")
        ring, = self.listed()
        self.assertEqual((ring["path"], ring["record_capacity"]), (lines[1], MIB // 64))
        self.assertGreater(ring["written_records"], 0)

    def test_the_first_variable_that_is_set_counts_as_in_pytorch(self):
        from fragscope import settings

        texts = (None, "", "max_split_size_mb:{}")
        names = settings.VARIABLES if is_new() else (CUDA,)
        cases = []
        for choice in itertools.product(texts, repeat=len(names)):
            environ = {name: text.format(64 * (at + 1)) for at, (name, text) in enumerate(zip(names, choice))
                       if text is not None}
            counts, text = settings.effective(environ)
            expected = int(text.partition(":")[2]) * MIB if text else -1
            ours = {**environ, counts or CUDA: f"{text},backend:fragscope_attach"}
            cases += [(environ, expected, False), (ours, expected, True)]
        seen = self.each([environ for environ, _, _ in cases])
        for (environ, split, recorded), one in zip(cases, seen):
            with self.subTest(environ=environ):
                self.assertEqual(one, {"error": "", "computed": 2.0, "split": split, "recorded": recorded,
                                       "stderr": "", "whole": True})
        self.assertEqual(len({one["split"] for one in seen}), len(names) + 1)

    def test_settings_of_ours_are_obeyed(self):
        place = self.rings / "else where:"
        place.mkdir()
        self.job(**{CUDA: f"backend:fragscope_attach,fragscope_dir:{place},fragscope_ring:128KiB"})
        ring, = place.iterdir()
        self.assertIn("-0-", ring.name)
        self.rings = place
        self.assertEqual(self.listed()[0]["record_capacity"], 2048)


class Wrong(LoadingTest):
    def probe(self, text, **environment):
        return self.run_python("-c", PROBE, **{CUDA: text, **environment})

    def test_a_bad_token_is_an_error_of_pytorchs_kind_when_cuda_is_used(self):
        cases = (
            ("backend:fragscope,fragscope_ring:64MB", "fragscope_ring:64MB", "64MiB"),
            ("backend:fragscope,backend:fragscope_attach", "backend:fragscope_attach", "keep one"),
            ("backend:fragscope_attach,fragscope_rng:1", "fragscope_rng:1", "fragscope_ring"),
            ("fragscope_ring:1MiB", "fragscope_ring:1MiB", "backend:fragscope"),
            ("backend:fragscope,fragscope_ring:1KiB", "fragscope_ring", "65536"),
            ("backend:fragscope_attach,fragscope_stacks:x", "fragscope_stacks:x", "python"))
        for (text, *words), seen in zip(cases, self.each([{CUDA: text} for text, *_ in cases])):
            with self.subTest(text=text):
                # What uses no CUDA runs, as it does with any other mistake in the variable.
                self.assertEqual((seen["computed"], seen["stderr"], seen["whole"]), (2.0, "", True))
                self.assertTrue(seen["error"].startswith(f"{ERROR} fragscope: "), seen)
                self.assertNotIn("\n", seen["error"])
                for word in words:
                    self.assertIn(word, seen["error"])

    def test_mistakes_that_abort_the_import_of_pytorch_are_told(self):
        # PyTorch 2.15 looks for a backend while it is imported, and ends the process at a word like these.
        for text, words in (("fragscope_attach", "add backend:fragscope_attach"),
                            ("fragscope_dir:/a:b", "add backend:fragscope_attach")):
            done = self.probe(text)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith(f"{ERROR} fragscope: {text}"), done.stdout)

    def test_pytorchs_own_errors_are_as_without_us(self):
        theirs = ("foo:1", "max_split_size_mb:4", "garbage_collection_threshold:2", "roundup_power2_divisions:3")
        ours = ("backend:fragscope_attach", "fragscope_ring:1MiB,backend:fragscope")
        cases = [(text, both) for text in theirs for our in ours for both in (f"{text},{our}", f"{our},{text}")]
        alone = dict(zip(theirs, self.each([{CUDA: text} for text in theirs])))
        for (text, both), seen in zip(cases, self.each([{CUDA: both} for _, both in cases])):
            with self.subTest(text=both):
                self.assertTrue(alone[text]["error"].startswith(ERROR))
                self.assertEqual(seen, alone[text])

    def test_a_place_that_cannot_be_written_leaves_the_job_unrecorded(self):
        cases = [f"backend:{backend},fragscope_dir:/proc/nowhere" for backend in ("fragscope_attach", "fragscope")]
        for seen in self.each([{CUDA: text} for text in cases]):
            self.assertEqual((seen["error"], seen["recorded"], seen["whole"]), ("", False, True))
            self.assertEqual(seen["stderr"].count("\n"), 1, seen)
            self.assertIn("/proc/nowhere", seen["stderr"])

    def test_a_backend_in_a_variable_that_does_not_count_is_said(self):
        seen, = self.each([{CUDA: "", GENERIC: "backend:fragscope_attach"}])
        self.assertEqual((seen["error"], seen["recorded"]), ("", False))
        self.assertEqual(seen["stderr"], f"fragscope: {GENERIC} names a backend of ours and does not count, since "
                                         f"{CUDA} is set, which PyTorch reads instead\n")

    def test_another_extension_may_have_started_cuda_before(self):
        site = next(self.folder.glob("environment/lib/python3*/site-packages"))
        (site / "aaa_starts_cuda.py").write_text("def start():\n import torch\n torch.empty(1, device='cuda')\n")
        other = site / "aaa-0.dist-info"
        other.mkdir()
        (other / "METADATA").write_text("Metadata-Version: 2.1\nName: aaa\nVersion: 0\n")
        (other / "entry_points.txt").write_text("[torch.backends]\naaa = aaa_starts_cuda:start\n")
        self.addCleanup(lambda: [path.unlink() for path in other.iterdir()] and other.rmdir())
        done = self.probe("backend:fragscope_attach")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "none\n", ""))
        self.assertGreater(self.listed()[0]["written_records"], 0)
        done = self.probe("backend:fragscope")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("backend:fragscope: ", done.stderr)

    def test_warnings_that_are_errors_stop_no_job(self):
        done = self.run_python("-W", "error", "-c", PROBE, **{CUDA: "backend:fragscope_attach,fragscope_dir:/proc/x"})
        self.assertEqual((done.returncode, done.stdout), (0, "none\n"), done.stderr)


if __name__ == "__main__":
    os.environ.pop("RANK", None)
    unittest.main(verbosity=2)
