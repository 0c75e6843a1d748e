# SPDX-License-Identifier: Apache-2.0
"""A virtual environment as `pip install .` leaves one: PyTorch's packages and ours, with ours from a build
tree. What pip makes of pyproject.toml is tested apart from this (tests/python/install)."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def site_packages(prefix):
    return next(Path(prefix).glob("lib/python3*/site-packages"))


def make_environment(folder, build, with_hook=True):
    """Gives its Python. Without the hook: as where site-packages is only on a path."""
    # Of the interpreter that runs here, without anything but itself in it.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = site_packages(folder)
    (site / "pytorch.pth").write_text(f"{site_packages(sys.prefix)}\n")
    subprocess.run(["cmake", "--install", str(build), "--component", "python", "--prefix", str(site)],
                   check=True, stdout=subprocess.DEVNULL)
    if not with_hook:
        (site / "fragscope.pth").unlink()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    information = site / f"{project['name']}-0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return Path(folder) / "bin" / "python"


def run(python, program, *options, arguments=(), **environment):
    """Runs lines of Python with what is given in the environment; None takes a name out."""
    merged = {**os.environ, **environment}
    return subprocess.run([str(python), *options, "-c", program, *arguments], capture_output=True, text=True,
                          check=False, env={k: v for k, v in merged.items() if v is not None})
