# SPDX-License-Identifier: Apache-2.0
"""`fragscope run` around jobs on real PyTorch, and a new user's whole path."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installed import TOOL, InstalledTest  # noqa: E402

CUDA = "PYTORCH_CUDA_ALLOC_CONF"
JOB = """
import os, sys, torch
held = [torch.empty(20 << 20, device="cuda", dtype=torch.uint8) for _ in range(600)]
del held[::2]
print(torch.cuda.get_allocator_backend(), os.environ.get("PYTORCH_CUDA_ALLOC_CONF"))
try:
    torch.empty(20 << 30, device="cuda", dtype=torch.uint8)
except torch.OutOfMemoryError:
    if "survive" not in sys.argv:
        raise
"""


class Run(InstalledTest):
    def setUp(self):
        super().setUp()
        self.job = self.rings / "job.py"
        self.job.write_text(JOB)
        self.trace = self.rings / "job.fst"

    def run_job(self, *options, python=None, arguments=(), **environment):
        merged = {**os.environ, "FRAGSCOPE_RING_DIR": str(self.rings), **environment}
        command = [TOOL, "run", "--out", self.trace, *options, "--", python or self.python, self.job, *arguments]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                              env=merged)

    def test_a_job_that_dies_of_memory_is_explained(self):
        for options, backend in (((), "native"), (("--allocator", "native"), "native"),
                                 (("--allocator", "fragscope"), None)):
            with self.subTest(options=options):
                done = self.run_job(*options, "--force")
                self.assertEqual(done.returncode, 1, done.stderr)
                if backend:
                    self.assertEqual(done.stdout, f"{backend} None\n")
                # PyTorch's own error, and after it ours.
                error, _, ours = done.stderr.partition("fragscope: the job ended with exit code 1\n")
                self.assertIn("OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.", error)
                self.assertIn(f"fragscope: {self.trace}: ", ours)
                self.assertRegex(ours, r"\n.*job\.fst: releasable \((proven|possible)\): 20.00 GiB failed on GPU 0|"
                                       r"\n.*job\.fst: capacity \((proven|possible)\): 20.00 GiB failed on GPU 0")
                self.assertIn(f"fragscope analyze {self.trace} shows what this rests on", ours)
                self.assertEqual([path.name for path in self.rings.iterdir() if "fragscope" in path.name], [])
                report = self.analyzed(self.trace)
                self.check_trust(report, is_attached=options[-1:] != ("fragscope",))
                self.assertEqual(report["failures"][-1]["request"]["asked_bytes"], 20 << 30)

    def test_a_failure_that_the_job_survives_is_mentioned(self):
        done = self.run_job(arguments=["survive"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"1 request failed and the job went on; fragscope analyze {self.trace} says why", done.stderr)

    def test_settings_of_the_job_stay_and_count(self):
        text = "max_split_size_mb:64,backend:fragscope_attach"
        done = self.run_job(**{CUDA: text})
        self.assertEqual(done.stdout, f"native {text}\n")
        self.assertTrue(self.trace.exists())

    def test_in_a_python_without_us_the_job_runs_as_ever(self):
        done = self.run_job(python=sys.executable, arguments=["survive"])
        self.assertEqual((done.returncode, done.stdout), (0, "native None\n"), done.stderr)
        self.assertIn("nothing was recorded", done.stderr)
        self.assertFalse(self.trace.exists())

    def test_what_cannot_be_recorded_is_said_and_runs(self):
        done = self.run_job(arguments=["survive"], XDG_CACHE_HOME=str(self.rings / "cache"), CXX="no-such-compiler")
        self.assertEqual((done.returncode, done.stdout), (0, "native None\n"), done.stderr)
        self.assertIn("fragscope: not recorded: there is no C++ compiler", done.stderr)
        self.assertIn("nothing was recorded", done.stderr)

    def test_ranks_have_a_file_each(self):
        merged = {**os.environ, "FRAGSCOPE_RING_DIR": str(self.rings), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([TOOL, "run", "--out", str(self.trace), "--", str(self.python), "-m",
                               "torch.distributed.run", "--nproc-per-node", "2", str(self.job)],
                              capture_output=True, text=True, check=False, env=merged)
        self.assertEqual(done.returncode, 1, done.stderr)
        files = sorted(self.rings.glob("*.fst"))
        self.assertEqual([path.name.split(".pid")[0] for path in files], ["job.rank0.gpu0", "job.rank1.gpu0"])
        self.assertEqual(done.stderr.count("20.00 GiB failed on GPU 0"), 2, done.stderr)


class NewUser(InstalledTest):
    def test_the_message_names_a_trace_that_can_be_analyzed(self):
        job = self.rings / "job.py"
        job.write_text(JOB)
        done = self.run_python(job, **{CUDA: "backend:fragscope"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.", done.stderr)
        ours = next(line for line in done.stderr.splitlines() if line.startswith("fragscope: "))
        path = ours.partition(" fragscope analyze ")[2].removesuffix(" says why.")
        report = self.analyzed(path)
        verdict = report["failures"][-1]["verdict"]
        self.assertEqual(ours, f"fragscope: {verdict['kind']} ({verdict['certainty']}). {verdict['text']} "
                               f"fragscope analyze {path} says why.")
        self.assertEqual(report["failures"][-1]["request"]["asked_bytes"], 20 << 30)
        self.assertNotEqual(report["failures"][-1]["verdict"]["kind"], "unknown")
        self.check_trust(report, is_attached=False)


if __name__ == "__main__":
    for name in ("RANK", "LOCAL_RANK"):
        os.environ.pop(name, None)
    unittest.main(verbosity=2)
