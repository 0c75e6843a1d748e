# SPDX-License-Identifier: Apache-2.0
"""`devices` on machines of virtual CUDA, and its file in the hands of `explain`. Whole texts are in
tests/golden/devices."""

import json
import os
from pathlib import Path
import subprocess
import tempfile
import unittest

import support

_GIB = 1 << 30
_NOBODY = 4200001  # Above every id that Linux gives.


def on_machine(*machine, arguments=("--json",), environment=None):
    """Exit code, standard output and standard error of `devices` on a virtual machine."""
    done = subprocess.run(
        ["virtual_cuda/run", "--libraries", support.LIBRARIES, *machine, "--", support.TOOL,
         "devices", *arguments],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **(environment or {})})
    return done.returncode, done.stdout, done.stderr


def devices_on(*machine, **options):
    code, out, err = on_machine(*machine, **options)
    assert code == 0, err
    return json.loads(out)


class Devices(unittest.TestCase):
    def test_a_process_from_here_is_seen_and_another_is_not(self):
        report = devices_on("--process", f"0:{os.getpid()}:3GiB",
                            "--process", f"0:{_NOBODY}:1GiB")
        device, = report["devices"]
        self.assertEqual([(process["pid"], process["visible"]) for process in device["processes"]],
                         [(os.getpid(), True), (_NOBODY, False)])
        self.assertEqual(device["used_bytes"], 4 * _GIB)
        self.assertEqual(device["unlisted_bytes"], 0)
        _, text, _ = on_machine("--process", f"0:{_NOBODY}:1GiB", arguments=())
        words = ("gone, or hidden from this user" if report["host_namespace"]
                 else "not visible in this namespace")
        self.assertIn(words, text)

    def test_it_makes_no_context(self):
        # With one the card would have 512 MiB less.
        device, = devices_on("--memory", "10GiB")["devices"]
        self.assertEqual(device["free_bytes"], 10 * _GIB)
        self.assertEqual(device["processes"], [])

    def test_where_nvml_is_not_there_the_driver_knows_the_total(self):
        with tempfile.TemporaryDirectory(prefix="fragscope_devices_") as folder:
            libraries = Path(support.LIBRARIES).resolve()
            for name in ("libcuda.so.1", "libfragscope_virtual_cuda.so"):
                (Path(folder) / name).symlink_to(libraries / name)
            environment = {**os.environ, "LD_LIBRARY_PATH": folder,
                           "FRAGSCOPE_VIRTUAL_CUDA": "gpus=2,memory=10GiB"}
            done = subprocess.run([support.TOOL, "devices", "--json"], capture_output=True,
                                  text=True, timeout=60, check=True, env=environment)
        report = json.loads(done.stdout)
        self.assertIn("libnvidia-ml.so.1", report["nvml_problem"])
        self.assertEqual(report["cuda_ordinals_from"], "driver")
        for ordinal, device in enumerate(report["devices"]):
            self.assertEqual(device["cuda_ordinal"], ordinal)
            self.assertEqual(device["total_bytes"], 10 * _GIB)
            self.assertIsNone(device["free_bytes"])
            self.assertIsNone(device["processes"])

    def test_without_a_driver_and_nvml_it_says_so_in_a_line(self):
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
        done = subprocess.run([support.TOOL, "devices"], capture_output=True, text=True, timeout=60,
                              check=False, env=environment)
        if done.returncode == 0:
            self.skipTest("this machine has a GPU")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertTrue(done.stderr.startswith("fragscope: no device: no"), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_the_program_needs_no_library_of_cuda(self):
        listed = subprocess.run(["ldd", support.TOOL], capture_output=True, text=True, check=True)
        for name in ("libcuda.so", "libnvidia-ml"):
            self.assertNotIn(name, listed.stdout)

    def test_explain_says_what_was_free_before(self):
        _, out, _ = on_machine("--gpus", "2", "--memory", "24GiB", "--process",
                               f"0:{_NOBODY}:20GiB:vllm",
                               environment={"CUDA_VISIBLE_DEVICES": "1,0"})
        log = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 30.00 GiB. GPU 1 has "
        log += b"a total capacity of 24.00 GiB of which 23.00 GiB is free. Of the allocated memory "
        log += b"0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\n"
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(out)
            file.flush()
            code, explained, err = support.run("explain", "--json", "--devices", file.name,
                                               stdin=log)
        self.assertEqual(code, 0, err)
        before = json.loads(explained)["reports"][0]["before"]
        # CUDA's number 1 is the machine's 0.
        self.assertEqual(before["uuid"], "GPU-f7a65c0e-0000-8000-8000-000000000000")
        self.assertEqual(before["free_bytes"], 4 * _GIB)
        self.assertEqual(before["processes"],
                         [{"pid": _NOBODY, "name": "vllm", "used_bytes": 20 * _GIB}])
