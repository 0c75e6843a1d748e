# SPDX-License-Identifier: Apache-2.0
"""What pip makes of pyproject.toml: from `pip install .` over a job that runs out of memory to `pip
uninstall`, with PyTorch there before us or after.

Skipped only where the packages that build ours cannot be had for want of a network."""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installed import ROOT, add_pytorch, make_bare_environment, site_packages  # noqa: E402

SKIPPED = 77  # What ctest takes for a skipped test.
CUDA = "PYTORCH_CUDA_ALLOC_CONF"
# 6 GiB in use, and 20 GiB asked for, of 24 GiB.
TRAIN = """
import torch
held = [torch.empty(20 << 20, device="cuda", dtype=torch.uint8) for _ in range(600)]
del held[::2]
torch.empty(20 << 30, device="cuda", dtype=torch.uint8)
"""
NOTHING_TO_COMPILE_WITH = {"CXX": "no-such-compiler"}


def fetch_what_builds(wheels):
    """Downloads what pyproject.toml asks for to build with; gives why it cannot be had, if for a network."""
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--retries", "1", "--timeout", "15",
                           "--dest", str(wheels), *requires], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    said = done.stdout + done.stderr
    if re.search("connection broken|Could not fetch URL|ConnectionError|timed out", said):
        return f"{', '.join(requires)} cannot be fetched from PyPI"
    sys.exit(said)


class PackageTest(unittest.TestCase):
    """With an environment whose Python is `python`, made by `prepare`, and a folder for what jobs leave."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="fragscope_package_")))
        cls.python = make_bare_environment(cls.folder / "environment")
        cls.command = cls.python.parent / "fragscope"
        cls.prepare()

    @classmethod
    def prepare(cls):
        """What all tests of a class start from."""

    @classmethod
    def pip(cls, *arguments, **environment):
        # What it builds with has been fetched; the index is not asked again.
        merged = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": os.environ["FRAGSCOPE_WHEELS"],
                  # In one folder, so that a second build has little left to do.
                  "SKBUILD_BUILD_DIR": os.environ["FRAGSCOPE_WHEELS"] + "/build",
                  "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", **environment}
        done = subprocess.run([str(cls.python), "-m", "pip", *map(str, arguments)], cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, env=merged)
        if done.returncode != 0:
            raise AssertionError(f"pip {' '.join(map(str, arguments))}\n{done.stdout}")

    @classmethod
    def files(cls):
        environment = cls.folder / "environment"
        return sorted(str(path.relative_to(environment)) for path in environment.rglob("*"))

    def setUp(self):
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory(dir=self.folder)))
        self.cache = self.place / "cache"
        self.cache.mkdir()
        self.job = self.place / "train.py"
        self.job.write_text(TRAIN)

    def run_job(self, *command, **environment):
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                              cwd=self.place, timeout=240,
                              env={**os.environ, "XDG_CACHE_HOME": str(self.cache),
                                   "FRAGSCOPE_RING_DIR": str(self.place), **environment})

    def check_explained(self, **environment):
        """A job under backend:fragscope that runs out of memory: the message has the verdict and names a
        trace, in which the installed command finds the same. Gives what else was said."""
        done = self.run_job(self.python, self.job, **{CUDA: "backend:fragscope", **environment})
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        before, _, error = done.stderr.partition("Traceback (most recent call last):\n")
        self.assertIn("OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.", error)
        ours = error.splitlines()[-1]
        trace = ours.partition(" fragscope analyze ")[2].removesuffix(" says why.")
        shown = self.run_job(self.command, "analyze", "--json", trace)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        failure = json.loads(shown.stdout)["failures"][-1]
        self.assertEqual(failure["request"]["asked_bytes"], 20 << 30)
        verdict = failure["verdict"]
        self.assertEqual((verdict["kind"], verdict["certainty"]), ("capacity", "proven"))
        self.assertEqual(ours, f"fragscope: capacity (proven). {verdict['text']} fragscope analyze {trace} says why.")
        return before

    def compiled(self):
        """The libraries for PyTorch, in the package and in the cache."""
        return [[*folder.rglob("libfragscope_torch.so")]
                for folder in (site_packages(self.folder / "environment"), self.cache)]


class WithPyTorch(PackageTest):
    """`pip install .` where PyTorch is, as most people will have it."""

    @classmethod
    def prepare(cls):
        add_pytorch(cls.folder / "environment")
        cls.pip("install", ".")

    def test_the_command_and_the_package_are_of_one_version(self):
        version = re.search(r"project\(fragscope VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        said = self.run_job(self.command, "--version").stdout
        self.assertIn(version, said)
        program = ("import importlib.metadata as m, fragscope\n"
                   "point, = [p for p in m.entry_points(group='torch.backends') if p.name == 'fragscope']\n"
                   "print(fragscope.__version__, m.version('fragscope'), callable(point.load()))")
        self.assertEqual(self.run_job(self.python, "-c", program).stdout, f"{version} {version} True\n")

    def test_a_failed_request_is_explained_with_nothing_left_to_compile(self):
        self.assertEqual(self.check_explained(**NOTHING_TO_COMPILE_WITH), "")
        in_package, in_cache = self.compiled()
        self.assertEqual((len(in_package), in_cache), (1, []))

    def test_fragscope_run_explains_the_job(self):
        done = self.run_job(self.command, "run", "--out", "job.fst", "--", self.python, self.job,
                            **NOTHING_TO_COMPILE_WITH)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("\njob.fst: capacity (proven): 20.00 GiB failed on GPU 0", done.stderr)
        shown = self.run_job(self.command, "analyze", "job.fst")
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertTrue(shown.stdout.startswith("job.fst: capacity (proven): 20.00 GiB failed on GPU 0"), shown)


class BeforePyTorch(PackageTest):
    """PyTorch comes later. The build sees as little of it where the front end hides it, as `uv pip` does."""

    def test_it_compiles_at_first_use_and_leaves_as_it_came(self):
        tree = sorted(os.listdir(ROOT))
        before = self.files()
        self.pip("install", ".")
        self.assertEqual(self.compiled(), [[], []])
        add_pytorch(self.folder / "environment")

        self.assertRegex(self.check_explained(), "^fragscope: compiling for PyTorch 2.15[^ ]*, once; .*\n$")
        self.assertEqual(list(map(len, self.compiled())), [0, 1])
        self.assertEqual(self.check_explained(**NOTHING_TO_COMPILE_WITH), "")

        # Anew, in the place of the former, though that is switched on meanwhile.
        self.pip("install", "--force-reinstall", ".", **{CUDA: "backend:fragscope"})
        self.assertEqual(list(map(len, self.compiled())), [1, 1])
        self.assertEqual(self.check_explained(XDG_CACHE_HOME=str(self.place), **NOTHING_TO_COMPILE_WITH), "")

        self.pip("uninstall", "--yes", "fragscope")
        (site_packages(self.folder / "environment") / "pytorch.pth").unlink()
        self.assertEqual(self.files(), before)
        self.assertEqual(sorted(os.listdir(ROOT)), tree)


def main():
    for name in ("RANK", "LOCAL_RANK"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="fragscope_wheels_") as wheels:
        missing = fetch_what_builds(wheels)
        if missing:
            print(f"SKIPPED: {missing}")
            sys.exit(SKIPPED)
        os.environ["FRAGSCOPE_WHEELS"] = wheels
        unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
