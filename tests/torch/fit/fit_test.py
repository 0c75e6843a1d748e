# SPDX-License-Identifier: Apache-2.0
"""What `fragscope fit` answers, put to the proof: PyTorch's own allocator runs the program once more, without
fragscope, on a device of the size that is named (works) and on one with 2 MiB less (does not).

Each run is a process of its own, forked from this one, which has imported PyTorch and never starts CUDA.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "attach"))

import attached  # noqa: E402
import fit_programs  # noqa: E402
import support  # noqa: E402
import torch  # noqa: E402
from support import MIB  # noqa: E402

TOOL = os.environ["FRAGSCOPE"]
ROOMY_DEVICE = 8 * support.GIB
STEP = 2 * MIB
# Of the device, before the allocator gets any; `fit` knows it only from a recording that shows the device's memory.
CONTEXT = 512 * MIB
EXPANDABLE = "expandable_segments:True"


class Run:
    """A program in a process of its own, on a device of this size; recorded, if a folder is given."""

    def __init__(self, program, device_bytes, conf="", folder=None):
        reader, writer = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(reader)
            os.environ.update(PYTORCH_CUDA_ALLOC_CONF=conf, FRAGSCOPE_VIRTUAL_CUDA=f"memory={device_bytes},context={CONTEXT}")
            if not conf:
                del os.environ["PYTORCH_CUDA_ALLOC_CONF"]
            if folder:
                os.environ["FRAGSCOPE_RING_DIR"] = folder
                attached.install("attach")
            result = fit_programs.run(program)
            result["device_bytes"] = support.total_bytes()
            with os.fdopen(writer, "w") as pipe:
                json.dump(result, pipe)
            os._exit(0)
        os.close(writer)
        self.pipe = os.fdopen(reader)

    def result(self):
        with self.pipe:
            text = self.pipe.read()
        _, status = os.waitpid(self.process, 0)
        assert status == 0, f"the process ended with {status}: {text}"
        return json.loads(text)


def fragscope(*arguments):
    # Virtual CUDA is for PyTorch alone.
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    done = subprocess.run([TOOL, *arguments], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def fits_in(ring):
    """By option string; the recorded settings are among them."""
    report = fragscope("fit", "--json", ring)
    assert report["verified"] and not report["misfits"], report
    return {fit["conf"]: fit for fit in report["fits"] if not fit["is_recorded"]}


def sizes_of(fits):
    return {conf: fit["smallest_device_bytes"] - fit["outside_bytes"] for conf, fit in fits.items()}


class Fit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        attached.built_library()

    def tearDown(self):
        self.assertFalse(torch.cuda.is_initialized())

    def record(self, program, device_bytes, conf=""):
        """What came of it, the path of its recording, and what is to be removed in the end."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        result = Run(program, device_bytes, conf, folder.name).result()
        ring, = glob.glob(f"{folder.name}/*")
        return result, ring

    def confirm(self, program, fit):
        """By running it, on sizes side by side."""
        self.assertIn(fit["outside_bytes"], (0, CONTEXT))
        size, conf, missing = fit["smallest_device_bytes"], fit["conf"], CONTEXT - fit["outside_bytes"]
        sizes = {size: True, size - STEP: size - STEP in fit["islands_bytes"]}
        sizes.update((island, True) for island in fit["islands_bytes"])
        runs = {each: Run(program, each + missing, conf) for each in sizes}
        for each, served in sizes.items():
            result = runs[each].result()
            with self.subTest(program=program, conf=conf, size=each, smallest=size):
                self.assertEqual(result["device_bytes"], each + missing)
                self.assertEqual(result["served"], served, result)

    def confirm_all(self, program, ring):
        """All settings that were tried; gives the fits by option string."""
        fits = fits_in(ring)
        self.assertGreaterEqual(len(fits), 7)
        for fit in fits.values():
            self.confirm(program, fit)
        return fits

    def test_fragmentation_that_expandable_segments_serve(self):
        result, ring = self.record("growing", fit_programs.GROWING_DEVICE)
        self.assertFalse(result["served"], result)
        failure, = fragscope("analyze", "--json", ring)["failures"]
        self.assertEqual(failure["verdict"]["kind"], "fragmented", failure["verdict"])
        fits = self.confirm_all("growing", ring)
        # On the device that was too small, by what `fit` says and by running.
        self.assertGreater(fits[""]["smallest_device_bytes"], fit_programs.GROWING_DEVICE)
        self.assertLessEqual(fits[EXPANDABLE]["smallest_device_bytes"], fit_programs.GROWING_DEVICE)
        self.assertTrue(Run("growing", fit_programs.GROWING_DEVICE, EXPANDABLE).result()["served"])

    def test_seeded_programs(self):
        for seed in fit_programs.SEEDS:
            program = f"seed {seed}"
            result, ring = self.record(program, ROOMY_DEVICE)
            self.assertTrue(result["served"], result)
            fits = self.confirm_all(program, ring)
            # Recorded where the cache had to be given back again and again, the program is the same one.
            least = fits[""]["smallest_device_bytes"]
            result, ring = self.record(program, least + CONTEXT)
            self.assertTrue(result["served"], result)
            with self.subTest(program=program, recorded="on the smallest device"):
                self.assertEqual(sizes_of(fits_in(ring)), sizes_of(fits))


if __name__ == "__main__":
    unittest.main(verbosity=2)
