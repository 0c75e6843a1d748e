# SPDX-License-Identifier: Apache-2.0
"""A virtual environment as `pip install .` leaves one: PyTorch's packages and ours, with ours from a build
tree. What pip makes of pyproject.toml is tested apart from this (package_test.py)."""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("FRAGSCOPE_BUILD", ""))
TOOL = os.environ.get("FRAGSCOPE", "")
ROOT = Path(__file__).resolve().parents[3]


def site_packages(prefix):
    return next(Path(prefix).glob("lib/python3*/site-packages"))


def make_bare_environment(folder, *options):
    """Of the interpreter that runs here, without anything but itself in it; gives its Python."""
    subprocess.run([sys.executable, "-m", "venv", *options, str(folder)], check=True)
    return Path(folder) / "bin" / "python"


def add_pytorch(folder):
    """That of the interpreter that runs here."""
    (site_packages(folder) / "pytorch.pth").write_text(f"{site_packages(sys.prefix)}\n")


def make_environment(folder, build):
    """Gives its Python."""
    python = make_bare_environment(folder, "--without-pip")
    add_pytorch(folder)
    site = site_packages(folder)
    subprocess.run(["cmake", "--install", str(build), "--component", "python", "--prefix", str(site)],
                   check=True, stdout=subprocess.DEVNULL)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    information = site / f"{project['name']}-0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return python


class InstalledTest(unittest.TestCase):
    """With an environment of its own, whose Python is `python`, and a folder for rings."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="fragscope_loading_")))
        cls.python = make_environment(cls.folder / "environment", BUILD)
        # Compiled once for all tests; those that compile have a cache of their own.
        os.environ["XDG_CACHE_HOME"] = str(BUILD / "python-cache")
        # Now, so that no test hears of it.
        subprocess.run([str(cls.python), "-c", "import torch, fragscope; fragscope.attach()"], check=True,
                       env={**os.environ, "FRAGSCOPE_RING_DIR": str(cls.folder)}, capture_output=True, timeout=240)

    def setUp(self):
        self.rings = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="rings_", dir=self.folder)))

    def run_python(self, *arguments, **environment):
        """To its end; a name that is given as None is taken out of the environment."""
        merged = {**os.environ, "FRAGSCOPE_RING_DIR": str(self.rings), **environment}
        return subprocess.run([str(self.python), *map(str, arguments)], capture_output=True, text=True, check=False,
                              env={name: value for name, value in merged.items() if value is not None}, timeout=240)

    def output_of(self, *arguments, **environment):
        """What it printed; it must end well and say nothing else."""
        done = self.run_python(*arguments, **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def listed(self):
        done = subprocess.run([TOOL, "rings", "--dir", str(self.rings), "--json"], capture_output=True, text=True,
                              check=True)
        return json.loads(done.stdout)["rings"]

    def analyzed(self, path):
        done = subprocess.run([TOOL, "analyze", "--json", str(path)], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def check_trust(self, report, is_attached):
        """Nothing weakens the evidence, but that PyTorch's own allocator does not tell everything."""
        self.assertEqual([entry["signal"] for entry in report["trust"]], ["derived-sizes"] if is_attached else [])
