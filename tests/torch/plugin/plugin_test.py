# SPDX-License-Identifier: Apache-2.0
"""The C functions as PyTorch's pluggable allocator: same addresses as the native one, failures, traces."""

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

LIBRARY = os.environ["FRAGSCOPE_ALLOC"]
TOOL = os.environ["FRAGSCOPE"]
MIB = 1 << 20
GIB = 1 << 30


def use_ours():
    import torch

    allocator = torch.cuda.memory.CUDAPluggableAllocator(LIBRARY, "fragscope_alloc", "fragscope_free")
    torch.cuda.memory.change_current_allocator(allocator)
    library = ctypes.CDLL(LIBRARY)
    library.fragscope_ring_path.restype = ctypes.c_char_p
    library.fragscope_base_alloc.restype = ctypes.c_void_p
    library.fragscope_base_alloc.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
    address = ctypes.cast(library.fragscope_record_stream, ctypes.c_void_p).value
    allocator.allocator().set_record_stream_fn(address)
    return library


def run_program(seed, steps=800):
    """Takes and gives back tensors on two streams; gives the addresses."""
    import torch

    draw = random.Random(seed)
    streams = [torch.cuda.default_stream(), torch.cuda.Stream()]
    held, addresses = [], []
    for _ in range(steps):
        if held and draw.random() < 0.48:
            held.pop(draw.randrange(len(held)))
            continue
        size = draw.choice((4096, MIB, 12 * MIB, 60 * MIB))
        with torch.cuda.stream(streams[draw.randrange(2)]):
            held.append(torch.empty(draw.randrange(1, size), dtype=torch.uint8, device="cuda"))
        addresses.append(held[-1].data_ptr())
    return addresses


def train(steps):
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        model(torch.randn(64, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def child(*arguments, directory, machine="", environment=None, **options):
    """This file again as a program of its own; `machine` is what it has more than this one's."""
    environment = {**os.environ, "FRAGSCOPE_RING_DIR": directory, **(environment or {})}
    environment["FRAGSCOPE_VIRTUAL_CUDA"] += "," + machine
    return subprocess.Popen([sys.executable, __file__, "child", *map(str, arguments)], text=True,
                            env=environment, stdout=subprocess.PIPE, **options)


def fragscope(*arguments):
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Plugin(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.directory = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def ring(self):
        rings = json.loads(fragscope("rings", "--dir", self.directory, "--json"))["rings"]
        self.assertEqual(len(rings), 1, rings)
        return rings[0]

    def output_of(self, *arguments, machine=""):
        process = child(*arguments, directory=self.directory, machine=machine)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 0, output)
        return output

    def test_addresses_are_those_of_the_native_allocator(self):
        for seed in range(3):
            native = self.output_of("program", "native", seed)
            ours = self.output_of("program", "ours", seed)
            self.assertGreater(len(native.split()), 300)
            self.assertEqual(ours, native, f"seed {seed}")

    def test_a_clean_end_is_one(self):
        self.output_of("program", "ours", 1)
        ring = self.ring()
        self.assertEqual((ring["state"], ring["failures"]), ("ended", 0))
        self.assertGreater(ring["written_records"], 1000)

    def test_a_failure_has_pytorchs_words_and_a_verdict(self):
        message = self.output_of("fail")
        self.assertTrue(message.startswith("RuntimeError: CUDA out of memory. Tried to allocate 30.00 "
                                           "GiB. GPU 0 has a total capacity of 24.00 GiB"), message)
        ring = self.ring()
        self.assertIn(f"fragscope analyze {ring['path']} says why.", message)
        self.assertIn("goes on", message)
        report = json.loads(fragscope("analyze", "--json", ring["path"]))
        self.assertEqual(report["failures"][-1]["verdict"]["kind"], "impossible")
        self.assertEqual(report["failures"][-1]["request"]["asked_bytes"], 30 * GIB)

    def test_it_names_processes_as_native_does(self):
        # Another that NVML can name, one that it cannot, and a container's view of this one.
        for options in ("process=0:77:2GiB:python,process=0:78:1GiB", "neighbour=3GiB,nvml-pid=4242",
                        "nvml=RunningProcesses:3"):
            texts = []
            for whose in ("native", "ours"):
                text = self.output_of("fail", whose, machine=options)
                texts.append(text.partition(": ")[2].partition("Of the allocated")[0])
            self.assertIn("Tried to allocate 30.00 GiB", texts[1])
            if "nvml=" in options:
                # PyTorch 2.6 insists on NVML, and says so instead of what failed.
                self.assertNotIn("memory in use", texts[1])
                continue
            self.assertEqual(texts[1], texts[0], options)
            self.assertIn("Process ", texts[1])
            self.assertEqual("this process" in texts[1], "nvml-pid" not in options)

    def test_the_trace_says_who_used_the_device(self):
        self.output_of("fail", machine="process=0:4200077:2GiB:python,process=0:4200078:1GiB")
        path = self.ring()["path"]
        report = json.loads(fragscope("analyze", "--json", path))
        facts = report["input"]["facts"]
        self.assertEqual((facts["nvml"], facts["driver"], facts["host_ordinal"]),
                         ("present", "595.00", "0"))
        self.assertEqual(facts["cuda_driver"], "13.2")
        self.assertIn(facts["cuda_runtime"].split(".")[0], ("12", "13"))
        failed = report["failures"][-1]
        # The context of 512 MiB and one segment of 2 MiB.
        self.assertEqual([(each["name"], each["used_bytes"], each["this"])
                          for each in failed["processes"]],
                         [(None, 514 * MIB, True), ("python", 2 * GIB, False), (None, GIB, False)])
        self.assertEqual(failed["state"]["context_bytes"], 512 * MIB)
        dump = fragscope("dump", path)
        at_start, at_failure = dump.split(" oom ")
        self.assertRegex(at_start, rf" device_memory free=\d+ total={24 * GIB} others={3 * GIB} ")
        self.assertRegex(at_failure, rf" device_memory free=\d+ total={24 * GIB} others={3 * GIB} ")
        self.assertNotIn("python", fragscope("analyze", path, "--redact"))
        self.assertIn("ON THE DEVICE", fragscope("analyze", path))

    def test_why_nobody_knows_who_used_the_device_is_recorded(self):
        for options, environment, expected in (
                ("nvml=RunningProcesses:4", {}, "Insufficient Permissions (4)"),
                ("nvml=nvmlInit:9", {}, "nvmlInit: Driver Not Loaded (9)"),
                ("", {"FRAGSCOPE_NVML": "0"}, "FRAGSCOPE_NVML=0")):
            with tempfile.TemporaryDirectory() as folder, self.subTest(options=options):
                process = child("fail", directory=folder, machine=options, environment=environment)
                process.communicate()
                self.assertEqual(process.returncode, 0)
                [path] = Path(folder).glob("*.ring")
                report = json.loads(fragscope("analyze", "--json", path))
                failed = report["failures"][-1]
                self.assertIsNone(failed["processes"])
                self.assertIn(expected, failed["processes_refused"])
                if "Running" not in options:
                    self.assertIn(expected, report["input"]["facts"]["nvml"])

    def test_call_stacks(self):
        for stacks in ("python", "all"):
            with self.subTest(stacks=stacks):
                self.output_of("stacks", stacks)
                path = self.ring()["path"]
                report = json.loads(fragscope("analyze", "--json", path))
                failure, = report["failures"]
                frames = failure["request"]["frames"]
                in_python = [frame["name"] for frame in frames if frame["filename"].endswith("plugin_test.py")]
                self.assertEqual(in_python[:2], ["asks_for_memory", "run_stacks"])
                in_code = [frame for frame in frames if not frame["filename"].endswith(".py")]
                self.assertEqual(bool(in_code), stacks == "all", frames)
                holder, = failure["holders"]
                self.assertIn("asks_for_memory", [frame["name"] for frame in holder["frames"]])
                self.assertIn("asks_for_memory", fragscope("dump", "--stacks", path))
                os.unlink(path)

    def test_marks_say_it_too(self):
        opened_ns = int(self.output_of("marks", machine="process=0:4200077:2GiB:python"))
        dump = fragscope("dump", self.ring()["path"])
        # Those from before the device was used: the last of them, each with its own time.
        early = [line.split() for line in dump.splitlines() if " mark " in line and "earl" in line]
        times = [float(words[1]) for words in early]
        self.assertEqual(len(early), 256)
        self.assertEqual([words[-2].strip('"') for words in early[:-2]], [str(n) for n in range(46, 300)])
        self.assertEqual(early[-1][3:5], ["point", '"earliest"'])
        self.assertEqual(early[-1][-1], "thread=4711")
        self.assertEqual(times[:-1], sorted(times[:-1]))
        self.assertTrue(opened_ns / 1e9 - 1 < times[-2] < opened_ns / 1e9 - 0.09, (opened_ns, times[-2]))
        self.assertAlmostEqual(times[-1], opened_ns / 1e9 - 1.1, delta=0.2)
        marked = dump.partition('"first"')[2]
        self.assertRegex(marked.partition('"second"')[0], r' process pid=4200077 bytes=\d+ name="python"')
        # A thousand marks as fast as they come may not ask a thousand times.
        self.assertEqual(dump.count('"many"'), 1000)
        self.assertLess(marked.count(" process pid=4200077"), 500)

    def test_a_killed_training_can_be_analyzed(self):
        process = child("train", 100000, directory=self.directory)
        self.assertEqual(process.stdout.readline(), "begins\n")
        threading.Event().wait(0.5)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        ring = self.ring()
        self.assertEqual(ring["state"], "dead")
        report = json.loads(fragscope("analyze", "--json", ring["path"]))
        signals = [entry["signal"] for entry in report["trust"]]
        self.assertNotIn("records-contradict", signals)
        end = report["devices"][0]["end"]
        # The weights, their two moments and a gradient: 8 layers of 512 by 512 floats.
        self.assertGreater(end["allocated_bytes"], 8 * 512 * 512 * 4)
        self.assertLess(end["allocated_bytes"], 1 * GIB)

    def test_a_forked_child_leaves_no_record(self):
        counts = [int(word) for word in self.output_of("fork").split()]
        self.assertEqual(counts[0], counts[1])
        self.assertGreater(counts[2], counts[1])
        self.assertEqual(self.ring()["state"], "ended")

    def test_two_devices_have_a_ring_each(self):
        self.output_of("two_devices")
        rings = json.loads(fragscope("rings", "--dir", self.directory, "--json"))["rings"]
        self.assertEqual(sorted(ring["device"] for ring in rings), [0, 1])

    def test_a_recorded_stream_is_waited_for(self):
        self.assertEqual(self.output_of("record_stream"), "another while held, the same afterwards\n")

    def test_threads_share_it(self):
        self.output_of("threads")
        self.assertEqual(self.ring()["state"], "ended")

    def test_an_unwritable_directory_is_no_failure(self):
        process = child("program", "ours", 1, directory=self.directory + "/missing",
                        stderr=subprocess.PIPE)
        output, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        self.assertGreater(len(output.split()), 300)
        lines = [line for line in errors.splitlines() if line.startswith("fragscope:")]
        self.assertEqual(len(lines), 1, errors)
        self.assertIn("device 0 is not recorded", lines[0])

    def test_only_our_names_are_exported(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, text=True,
                                capture_output=True).stdout
        names = [line.split()[-1] for line in listed.splitlines()]
        self.assertIn("fragscope_alloc", names)
        self.assertEqual([name for name in names if not name.startswith("fragscope_")], [])


def written(library):
    """How many records the ring of device 0 has, from its header (docs/trace_format.md)."""
    with open(library.fragscope_ring_path(0), "rb") as ring:
        return int.from_bytes(ring.read(64)[56:64], "little")


def run_fail(whose="ours"):
    import torch

    if whose == "ours":
        use_ours()
    kept = torch.empty(100, device="cuda")
    try:
        torch.empty(30 * GIB, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        print(f"{type(error).__name__}: {error}")
    kept = torch.empty(kept.numel() * 2, device="cuda")
    print("goes on")


def asks_for_memory(size):
    import torch

    return torch.empty(size, dtype=torch.uint8, device="cuda")


def run_stacks(stacks):
    library = use_ours()
    library.fragscope_configure.restype = ctypes.c_char_p
    assert library.fragscope_configure(b"stacks", stacks.encode()) is None
    kept = [asks_for_memory(30 * MIB)]
    try:
        asks_for_memory(1 << 45)
    except RuntimeError:
        print(len(kept))


def run_marks():
    import torch

    library = use_ours()
    for number in range(300):
        library.fragscope_mark(b"early %d" % number, 0)
    library.fragscope_mark(b"early stage", 1)
    library.fragscope_mark_earlier(b"earliest", 0, ctypes.c_uint64(time.monotonic_ns() - 10**9), 4711)
    time.sleep(0.1)
    print(time.time_ns())
    torch.empty(1, device="cuda")
    library.fragscope_mark(b"first", 0)
    library.fragscope_mark(b"second", 0)
    for _ in range(1000):
        library.fragscope_mark(b"many", 0)


def run_fork():
    import torch

    library = use_ours()
    kept = [torch.empty(100, device="cuda")]
    print(written(library))
    pid = os.fork()
    if pid == 0:
        kept.clear()  # PyTorch calls our function in the child, too.
        os._exit(0)
    os.waitpid(pid, 0)
    print(written(library))
    kept.append(torch.empty(100, device="cuda"))
    print(written(library))


def run_two_devices():
    import torch

    use_ours()
    tensors = [torch.empty(MIB, device=f"cuda:{device}") for device in (0, 1, 0)]
    tensors.clear()  # Each deleter knows its device.


def run_record_stream():
    import torch

    library = use_ours()
    side = torch.cuda.Stream()
    torch.empty(1, device="cuda")
    held = ctypes.CDLL(None)
    handle = ctypes.c_void_p(side.cuda_stream)
    assert held.fragscope_vc_hold_stream(handle) == 0
    tensor = torch.empty(4 * MIB, device="cuda")
    first = tensor.data_ptr()
    with torch.cuda.stream(side):
        torch.empty(1, device="cuda").zero_()
    tensor.record_stream(side)
    del tensor
    second = torch.empty(4 * MIB, device="cuda").data_ptr()
    assert held.fragscope_vc_release_stream(handle) == 0
    side.synchronize()
    torch.empty(2 * MIB, device="cuda")
    base = library.fragscope_base_alloc(None, None)
    assert base is None
    again = [torch.empty(4 * MIB, device="cuda") for _ in range(2)]
    found = first in [tensor.data_ptr() for tensor in again]
    print("another" if second != first else "the same", "while held,",
          "the same" if found else "another", "afterwards")


def run_threads():
    import torch

    use_ours()

    def work(seed):
        draw = random.Random(seed)
        held = []
        for _ in range(400):
            held.append(torch.empty(draw.randrange(1, MIB), device="cuda"))
            if len(held) > 20:
                held.pop(draw.randrange(len(held)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_child(what, *arguments):
    if what == "program":
        if arguments[0] == "ours":
            use_ours()
        print(*run_program(int(arguments[1])))
    elif what == "train":
        use_ours()
        train(1)
        print("begins", flush=True)
        train(int(arguments[0]))
    else:
        {"fail": run_fail, "marks": run_marks, "fork": run_fork, "two_devices": run_two_devices, "threads": run_threads,
         "record_stream": run_record_stream, "stacks": run_stacks}[what](*arguments)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        run_child(*sys.argv[2:])
    else:
        unittest.main()
