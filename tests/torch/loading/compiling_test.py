# SPDX-License-Identifier: Apache-2.0
"""What is compiled against the installed PyTorch: once for many processes, never for another version, and
what is left without a compiler."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installed import InstalledTest  # noqa: E402

CUDA = "PYTORCH_CUDA_ALLOC_CONF"
PROBE = """
import torch, fragscope
try:
    x = torch.empty(1 << 20, device="cuda")
    torch.empty(100, pin_memory=True)
    print(torch.cuda.get_allocator_backend(), bool(fragscope.ring_path()))
    torch.empty(1 << 45, device="cuda")
except Exception as error:
    print(type(error).__name__, str(error)[:60].splitlines()[0])
"""
KEY = "import torch, fragscope.shim; print(fragscope.shim.key(torch))"


class Compiling(InstalledTest):
    def setUp(self):
        super().setUp()
        self.cache = self.rings / "cache"
        self.cache.mkdir()

    def probe(self, text, **environment):
        return self.run_python("-c", PROBE, **{CUDA: text, "XDG_CACHE_HOME": str(self.cache), **environment})

    def libraries(self):
        return [*self.cache.rglob("*.so*")]

    def test_many_processes_that_start_at_once_compile_once(self):
        environment = {**os.environ, CUDA: "backend:fragscope_attach", "XDG_CACHE_HOME": str(self.cache),
                       "FRAGSCOPE_RING_DIR": str(self.rings)}
        jobs = [subprocess.Popen([str(self.python), "-c", PROBE], env=environment, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
        ends = [(*job.communicate(), job.returncode) for job in jobs]
        self.assertEqual({code for _, _, code in ends}, {0}, ends)
        self.assertEqual({out.splitlines()[0] for out, _, _ in ends}, {"native True"}, ends)
        self.assertEqual(sum("compiling for PyTorch" in err for _, err, _ in ends), 1, ends)
        self.assertEqual([path.name for path in self.libraries()], ["libfragscope_torch.so"])
        # From then on nothing is compiled, nor said.
        again = self.probe("backend:fragscope_attach", CXX="false")
        self.assertEqual((again.stdout.splitlines()[0], again.stderr), ("native True", ""))

    def test_without_a_compiler_the_allocator_is_a_plug_in(self):
        done = self.probe("backend:fragscope,max_split_size_mb:64", CXX="no-such-compiler")
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "pluggable True", done)
        self.assertRegex(lines[1], "^RuntimeError CUDA out of memory. Tried to allocate 131072.00 GiB")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, "^fragscope: there is no C.. compiler no-such-compiler; backend:fragscope runs "
                                      "as a plug-in: ")
        refused = self.probe("backend:fragscope,max_split_size_mb:4", CXX="no-such-compiler")
        self.assertRegex(refused.stdout, "^(ValueError|RuntimeError) CachingAllocator option max_split_size_mb too small")
        self.assertEqual(refused.stderr, "")

    def test_without_a_compiler_a_job_that_was_to_be_recorded_runs_unrecorded(self):
        for compiler, words in (("no-such-compiler", "there is no C++ compiler no-such-compiler"),
                                ("false", "false failed")):
            with self.subTest(compiler=compiler):
                done = self.probe("backend:fragscope_attach", CXX=compiler)
                self.assertEqual(done.stdout.splitlines()[0], "native False", done)
                self.assertIn(f"fragscope: not recorded: {words}", done.stderr)
        # What has just failed is not tried again by every process.
        done = self.probe("backend:fragscope_attach", CXX="false")
        self.assertNotIn("compiling", done.stderr)
        self.assertIn("not recorded: false failed", done.stderr)

    def test_what_the_compiler_said_is_passed_on(self):
        done = self.probe("backend:fragscope_attach", CXX="g++ -include /no/such/header.hpp")
        self.assertIn("/no/such/header.hpp: No such file", done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], "native False")
        self.assertEqual(self.libraries(), [])

    def test_no_compiler_that_could_be_named_ends_the_job(self):
        # Blank is not set; what it says may be no text.
        done = self.probe("backend:fragscope_attach", CXX=" ", PATH="/nowhere")
        self.assertEqual(done.stderr, "fragscope: not recorded: there is no C++ compiler g++\n")
        self.assertEqual(done.stdout.splitlines()[0], "native False")
        compiler = self.rings / "compiler"
        compiler.write_text("#!/bin/sh\nprintf 'error \\377\\n' >&2\nexit 1\n")
        compiler.chmod(0o755)
        for _ in range(2):  # The second is told what the first kept.
            done = self.probe("backend:fragscope_attach", CXX=str(compiler))
            self.assertEqual(done.stdout.splitlines()[0], "native False", done)
            self.assertIn(f"not recorded: {compiler} failed: error \ufffd\n", done.stderr)

    def test_what_nobody_thought_of_ends_no_import(self):
        program = "import fragscope.shim\nfragscope.shim.key = lambda torch: 1 / 0\n" + PROBE
        for token, out in (("backend:fragscope_attach", "native False"),
                           ("backend:fragscope", "(ValueError|RuntimeError) fragscope: backend:fragscope: ZeroDiv")):
            with self.subTest(token=token):
                done = self.run_python("-c", program, **{CUDA: token, "XDG_CACHE_HOME": str(self.cache)})
                self.assertRegex(done.stdout, f"^{out}")
                self.assertEqual(done.returncode, 0, done.stderr)
        done = self.output_of("-c", "import sys, fragscope.shim; sys.stderr = sys.stdout\n"
                              "fragscope.shim.key = lambda torch: 1 / 0\nprint(fragscope.attach())")
        self.assertEqual(done, "fragscope: not recorded: ZeroDivisionError: division by zero\nFalse\n")

    def test_nobody_waits_for_ever(self):
        key = self.output_of("-c", KEY).strip()
        folder = self.cache / "fragscope" / "torch" / key
        folder.mkdir(parents=True)
        program = "import fragscope.shim\nfragscope.shim._PATIENCE_SECONDS = 0.5\n" + PROBE
        with open(folder / "lock", "w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            done = self.run_python("-c", program, **{CUDA: "backend:fragscope_attach",
                                                     "XDG_CACHE_HOME": str(self.cache)})
        self.assertEqual((done.stdout.splitlines()[0], done.stderr),
                         ("native False", "fragscope: not recorded: another process compiles, and does not end\n"))
        compiler = self.rings / "compiler"
        compiler.write_text("#!/bin/sh\nexec sleep 1000\n")
        compiler.chmod(0o755)
        done = self.run_python("-c", program, CXX=str(compiler), **{CUDA: "backend:fragscope_attach",
                                                                     "XDG_CACHE_HOME": str(self.cache)})
        self.assertEqual(done.stdout.splitlines()[0], "native False")
        self.assertTrue(done.stderr.endswith(f"not recorded: {compiler} did not end in 0.5 s\n"), done.stderr)

    def test_a_library_for_another_pytorch_is_refused(self):
        # What was compiled for the other tests, or is now.
        self.assertEqual(self.run_python("-c", PROBE, **{CUDA: "backend:fragscope_attach"}).stdout.split()[0],
                         "native")
        shutil.copytree(Path(os.environ["XDG_CACHE_HOME"]) / "fragscope", self.cache / "fragscope")
        self.assertEqual(self.probe("backend:fragscope_attach", CXX="false").stdout.splitlines()[0], "native True")
        key = self.output_of("-c", KEY)
        library = self.cache / "fragscope" / "torch" / key.strip() / "libfragscope_torch.so"
        library.unlink()
        sources = next(self.folder.glob("environment/lib/python3*/site-packages/fragscope/source"))
        made = subprocess.run(
            ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)], text=True, check=True,
            input='extern "C" { const char* fragscope_torch_version() { return "1.0.0"; }\n'
                  "const char* fragscope_torch_parse_settings() { __builtin_trap(); }\n"
                  "const char* fragscope_torch_install(const char*, const char*) { __builtin_trap(); }\n"
                  "const char* fragscope_torch_flush() { __builtin_trap(); } }\n")
        self.assertEqual(made.returncode, 0)
        done = self.probe("backend:fragscope_attach")
        self.assertEqual(done.stdout.splitlines()[0], "native False")
        self.assertRegex(done.stderr, "^fragscope: not recorded: .*is made for PyTorch 1.0.0, this is .*; remove it\n$")
        library.write_bytes(b"no library")
        done = self.probe("backend:fragscope_attach")
        self.assertEqual(done.stdout.splitlines()[0], "native False")
        self.assertRegex(done.stderr, "^fragscope: not recorded: .*does not fit this PyTorch: ")
        # Another version of ours has another key.
        header = next(sources.rglob("*.hpp"))
        original = header.read_text()
        self.addCleanup(header.write_text, original)
        header.write_text(original + "\n")
        done = self.probe("backend:fragscope_attach", CXX="no-such-compiler")
        self.assertEqual(done.stderr, "fragscope: not recorded: there is no C++ compiler no-such-compiler\n")

    def test_a_cache_that_others_may_write_to_is_not_used(self):
        folder = self.cache / "fragscope" / "torch"
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        done = self.probe("backend:fragscope_attach")
        self.assertIn(f"not recorded: others may write to {folder}", done.stderr)
        shutil.rmtree(folder)
        (self.cache / "fragscope").rmdir()
        (self.cache / "fragscope").write_text("in the way")
        done = self.probe("backend:fragscope_attach")
        self.assertTrue(re.search("not recorded: no place to keep what is compiled: .*XDG_CACHE_HOME", done.stderr),
                        done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], "native False")


if __name__ == "__main__":
    unittest.main(verbosity=2)
