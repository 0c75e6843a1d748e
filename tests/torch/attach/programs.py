# SPDX-License-Identifier: Apache-2.0
"""Jobs for attach_test.py: `programs.py NAME WAY`, with WAY `native`, `attach`, `dropin` or `middle`. Each prints a line of JSON
with what PyTorch says in the end, and then kills itself, so that the trace ends there, too."""

import ctypes
import faulthandler
import gc
import json
import os
import random
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import attached  # noqa: E402
import support  # noqa: E402
import torch  # noqa: E402
from support import MIB  # noqa: E402


def plain(statistics):
    """Without the numbers of pools, which are those of the process."""
    return {key: value for key, value in statistics.items() if isinstance(value, int)}


def say(**facts):
    """Says it with the statistics of each device, and ends at once."""
    facts["statistics"] = [plain(torch.cuda.memory_stats(device))
                           for device in range(torch.cuda.device_count())]
    facts["segments"] = [
        (part["device"], part["address"], part["total_size"], part["stream"],
         [(block["size"], block["requested_size"], block["state"]) for block in part["blocks"]])
        for part in torch.cuda.memory_snapshot()]
    print(json.dumps(facts), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def mixture(seed, steps, device="cuda"):
    """Takes and gives back tensors on three streams, records streams, releases; the tensors and addresses."""
    draw = random.Random(seed)
    with torch.cuda.device(device):
        streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
        held, addresses = [], []
        for step in range(steps):
            if step % 197 == 196:
                torch.cuda.empty_cache()
            if step % 61 == 0:
                support.hold(streams[1 + step % 2])
            if step % 61 == 40:
                support.release(streams[1])
                support.release(streams[2])
            if held and draw.random() < 0.49:
                tensor = held.pop(draw.randrange(len(held)))
                if draw.random() < 0.2:
                    other = streams[draw.randrange(3)]
                    with torch.cuda.stream(other):
                        support.allocate(1, device).zero_()
                    tensor.record_stream(other)
                del tensor
                continue
            size = draw.choice((4096, MIB, 12 * MIB, 60 * MIB))
            with torch.cuda.stream(streams[draw.randrange(3)]):
                held.append(support.allocate(draw.randrange(1, size), device))
            addresses.append(held[-1].data_ptr())
    return held, addresses


def run_mixture(seed="1", steps="900"):
    held, addresses = mixture(int(seed), int(steps))
    say(addresses=addresses, held=len(held))


def run_training():
    model = support.transformer(layers=4)
    support.train(model, 3)
    say()


def run_devices():
    held = [mixture(seed, 400, f"cuda:{seed}") for seed in (0, 1)]
    held.append(held[0][0][0].to("cuda:1"))
    say(addresses=[each[1] for each in held[:2]])


def run_unused_devices():
    """Questions about devices that are not in use, and a limit for one of them."""
    kept = support.allocate(MIB)
    devices = range(torch.cuda.device_count())
    for device in devices:
        torch.cuda.reset_peak_memory_stats(device)
        torch.cuda.reset_accumulated_memory_stats(device)
    torch.cuda.set_per_process_memory_fraction(0.25, 1)
    facts = {"current": torch.cuda.current_device(), "kept": kept.data_ptr()}
    facts["fractions"] = [torch.cuda.get_per_process_memory_fraction(device) for device in devices]
    facts["contexts"] = [torch._C._cuda_hasPrimaryContext(device) for device in devices]
    torch.cuda.set_device(1)
    facts["failure"] = failing(10 << 30).splitlines()[0]
    say(**facts)


def run_pools():
    pool, graph = torch.cuda.MemPool(), torch.cuda.CUDAGraph()
    with torch.cuda.use_mem_pool(pool):
        inside = [support.allocate(size * MIB) for size in (1, 9, 33)]
        del inside[1]
    x = torch.zeros(MIB, device="cuda")
    with torch.cuda.graph(graph):
        y = (x + 1) * 2
    graph.replay()
    outside = support.allocate(25 * MIB)
    say(kept=[y.data_ptr(), outside.data_ptr()])


def run_gone_pool():
    """The end of a pool gives back what the pool has cached, not what is cached elsewhere."""
    cached, kept = support.allocate(30 * MIB), support.allocate(12 * MIB)
    del cached
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = support.allocate(5 * MIB)
    del inside, pool
    gc.collect()
    again = support.allocate(30 * MIB)
    say(kept=[kept.data_ptr(), again.data_ptr()])


def run_checkpoint():
    """What trees of CUDA graphs do: a pool's state is put back, its blocks become tensors again."""
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    x = torch.zeros(5 * MIB, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.graph(graph, pool=pool, stream=stream):
        y = x + 1
        z = y * 2
        del y
    device = torch.cuda.current_device()
    state = torch._C._cuda_getCheckpointState(device, pool)
    address, size = z.data_ptr(), z.untyped_storage().nbytes()
    del z
    torch._C._cuda_setCheckpointPoolState(device, state, [], [])
    torch._C._cuda_cudaCachingAllocator_raw_delete(address)
    kept = support.allocate(3 * MIB)
    say(size=size, kept=kept.data_ptr())


def run_addresses():
    """Storages that come back where they were, each in the middle of free memory; and three that cannot."""
    pool, rests = torch.cuda.MemPool(), []
    for scope in (torch.cuda.use_mem_pool(pool), torch.cuda.stream(torch.cuda.Stream())):
        with scope:
            kept = support.allocate(64 * 1024)
            pairs = [(support.allocate(3729), support.allocate(size)) for size in (4017, 700_000, 5 * MIB, 30 * MIB)]
            storages = [tensor.untyped_storage() for _, tensor in pairs]
            places = [(storage.nbytes(), storage.data_ptr()) for storage in storages]
            for storage in storages + [front.untyped_storage() for front, _ in pairs]:
                storage.resize_(0)
            for storage, place in zip(storages, places, strict=True):
                storage._resize_with_addr_(*place)
            refusals = []
            front = pairs[0][0].untyped_storage()
            for address in (kept.data_ptr(), kept.data_ptr() + 1, kept.data_ptr() + (1 << 40)):
                try:
                    front._resize_with_addr_(3729, address)
                except RuntimeError as error:
                    refusals.append(str(error).splitlines()[0])
            rests.append((kept, pairs, refusals))
    try:
        torch._C._cuda_annotateMemory(1 << 20, "nothing")
    except RuntimeError as error:
        refusals.append(str(error).splitlines()[0])
    say(addresses=[[tensor.data_ptr() for _, tensor in pairs] for _, pairs, _ in rests],
        refusals=[refusals for _, _, refusals in rests])


def run_uncached():
    torch.empty(1, device="cuda")
    torch.cuda.caching_allocator_enable(False)
    tensor = support.allocate(4 * MIB)
    torch.cuda.caching_allocator_enable(True)
    cached = support.allocate(4 * MIB)
    raw = torch.cuda.caching_allocator_alloc(3 * MIB)
    del tensor
    torch.cuda.caching_allocator_delete(raw)
    say(address=cached.data_ptr())


def run_registry():
    """Some of PyTorch asks c10's registry of allocators and not the CUDA one."""
    tensor = support.allocate(4 * MIB)
    seen = None
    if support.version() >= (2, 15):
        seen = [torch.accelerator.memory_allocated(), plain(torch.accelerator.memory_stats())]
        del tensor
        torch.accelerator.empty_cache()
        seen.append(torch.accelerator.memory_reserved())
    say(seen=seen)


def run_history():
    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
    held, _ = mixture(4, 300)
    traces = [(entry["action"], entry.get("addr"), entry["size"], entry["stream"])
              for trace in torch.cuda.memory._snapshot()["device_traces"] for entry in trace]
    say(held=len(held), traces=traces)


def run_settings():
    held = [support.allocate(50 * MIB) for _ in range(3)]
    torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:4")
    torch.cuda.set_per_process_memory_fraction(0.5)
    held += [support.allocate(70 * MIB + 5) for _ in range(3)]
    held += [support.allocate(5 * MIB + 5) for _ in range(3)]
    say()


def run_fraction():
    """Half of the card, by the environment's settings."""
    held = [support.allocate(10 << 30)]
    try:
        held.append(support.allocate(3 << 30))
        outcome = "served"
    except torch.OutOfMemoryError as error:
        outcome = str(error).splitlines()[0]
    say(outcome=outcome, fraction=torch.cuda.get_per_process_memory_fraction(), held=len(held))


def run_threads():
    """Threads that take turns at random, on one device."""
    kept = []

    def work(seed):
        draw = random.Random(seed)
        held = []
        for _ in range(3000):
            held.append(support.allocate(draw.randrange(1, 4 * MIB)))
            if len(held) > 20:
                held.pop(draw.randrange(len(held)))
        kept.append(held)

    torch.cuda.init()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.reset_peak_memory_stats()  # Other threads' peaks are no events.
    say()


def run_long(device="0"):
    """Until the ring came round; keyframes on the way."""
    torch.cuda.set_device(int(device))
    kept = [support.allocate(100) for _ in range(200)]
    for step in range(150_000):
        support.allocate(1 + step % 100_000)
    say(kept=len(kept))


def run_until_killed():
    model = support.transformer(layers=2)
    while True:
        support.train(model, 1, tokens=(2, 64))
        print("goes on", flush=True)


def failing(size):
    """The error's text."""
    try:
        support.allocate(size)
    except torch.OutOfMemoryError as error:
        return str(error)
    raise AssertionError(f"{size} bytes were there")


def run_failure():
    """More than there is, more than can be, more than is free, and more than is free in one piece."""
    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
    messages = [failing(30 << 30), failing(1 << 61)]
    pieces = [support.allocate(8 * MIB) for _ in range(2000)]
    messages.append(failing(12 << 30))
    try:
        while True:
            pieces.append(support.allocate(8 * MIB))
    except torch.OutOfMemoryError:
        pass
    del pieces[::2]
    messages.append(failing(40 * MIB))
    torch.cuda.memory._dump_snapshot(os.environ["SNAPSHOT"])
    pieces.append(support.allocate(8 * MIB))
    say(messages=messages)


def run_stages(history="off"):
    """Says what it does, before CUDA is used and while, on two threads, by our marks and by PyTorch's annotations."""
    mark = ctypes.CDLL(os.environ["FRAGSCOPE_ALLOC"]).fragscope_mark
    scope = torch.profiler.record_function
    mark(b"the job", 1)
    with scope("before CUDA"):
        pass
    if history == "on":
        torch.cuda.memory._record_memory_history(max_entries=1000, stacks="python")
    with scope("forward"):
        kept = [support.allocate(MIB)]
        with scope("inner"):
            message = failing(1 << 45)

    def work():
        with scope("beside"):
            kept.append(support.allocate(MIB))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    weights = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(weights.parameters())
    weights(torch.zeros(1, 8, device="cuda")).sum().backward()
    optimizer.step()
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                      schedule=torch.profiler.schedule(wait=0, warmup=0, active=9))
    profiler.start()
    for _ in range(2):
        kept.append(support.allocate(MIB))
        profiler.step()
    profiler.stop()
    theirs = [entry["name"] for entry in torch.cuda.memory._snapshot().get("external_annotations", [])]
    for _ in range(20_000):
        with scope("empty"):
            pass
    mark(b"a point", 0)
    kept.append(support.allocate(MIB))
    say(message=message, annotations=theirs, thread=threading.get_native_id())


def run_names(count="300000"):
    """An annotation of another name each time, with something in it."""
    scope = torch.profiler.record_function
    kept = support.allocate(100)
    for number in range(int(count)):
        with scope(f"batch {number} of an epoch"):
            kept = support.allocate(100)
    say(kept=kept.data_ptr())


def asks_for_memory(size):
    return support.allocate(size)


def run_stacks():
    kept = asks_for_memory(30 * MIB)
    say(message=failing(1 << 45), size=kept.untyped_storage().nbytes())


def run_collections():
    """Garbage collections while names of code are taken, which ask for memory themselves."""
    faulthandler.dump_traceback_later(60, exit=True)
    torch.cuda.init()
    code = compile("def f(take):\n    return take(100)\n", "f", "exec")
    held, kept, functions = [], [], []
    for number in range(1000):
        names = {}
        exec(code, names)
        # As os.fsdecode gives for a path that is no UTF-8: to take it raises, and may start a collection.
        names["f"].__code__ = names["f"].__code__.replace(co_filename=f"bad\udc80{number}.py")
        functions.append(names["f"])
    gc.callbacks.append(lambda phase, _: held.append(support.allocate(1)) if phase == "stop" else None)
    gc.set_threshold(5, 10, 10)
    for number, function in enumerate(functions):
        kept += [[] for _ in range(number % 7)]
        function(support.allocate)
    gc.callbacks.clear()
    say(held=len(held))


def run_split():
    """Whose stacks the snapshot shows of segments, while they are whole, cut, and whole again."""
    torch.cuda.memory._record_memory_history(max_entries=1000, stacks="python")

    def first(size):
        return support.allocate(size)

    def second(size):
        return support.allocate(size)

    def look():
        return [[functions_of(segment), [(block["size"], block["state"], functions_of(block))
                                         for block in segment["blocks"]]]
                for segment in torch.cuda.memory._snapshot()["segments"]]

    stacks = []
    for size in (30 * MIB, 3 * MIB, 100):
        held = [first(size)]
        stacks.append(look())
        held.clear()
        stacks.append(look())
        held += [second(size // 10), second(size // 10)]
        stacks.append(look())
        del held[0]
        stacks.append(look())
        held.clear()
        stacks.append(look())
        torch.cuda.empty_cache()
    say(stacks=stacks)


def functions_of(part):
    return [frame["name"] for frame in part.get("frames", [])
            if frame["filename"].endswith(("programs.py", "support.py"))]


def run_raw_uncached():
    """Memory by PyTorch's raw functions while caching is off, and given back while it is off and on."""
    torch.empty(1, device="cuda")
    held = []

    def look():
        held.append((support.used_bytes(), torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))

    look()
    torch.cuda.caching_allocator_enable(False)
    tensor, raw = support.allocate(40 * MIB), torch.cuda.caching_allocator_alloc(50 * MIB)
    look()
    other = torch.cuda.caching_allocator_alloc(60 * MIB)
    look()
    for give_back in (lambda: torch.cuda.caching_allocator_delete(raw), tensor.set_):
        give_back()
        look()
    torch.cuda.caching_allocator_enable(True)
    look()
    try:
        torch.cuda.caching_allocator_delete(other)
        outcome = "given back"
    except RuntimeError as error:
        outcome = str(error).split(":")[0]
    torch.cuda.empty_cache()
    look()
    say(held=held, outcome=outcome)


def run_fork():
    held = [support.allocate(MIB)]
    pid = os.fork()
    if pid == 0:
        held.clear()
        gc.collect()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    held.append(support.allocate(MIB))
    say()


def run_exit():
    """Ends as programs do, with a tensor that outlives everything."""
    sys.modules["torch"].kept_for_ever = support.allocate(MIB)
    global leaked
    leaked = support.allocate(MIB)
    print("{}")


def run_late():
    """A second one wants to come in while CUDA is in use."""
    torch.empty(1, device="cuda")
    refusal = attached.load().fragscope_torch_install(os.environ["FRAGSCOPE_ALLOC"].encode(), b"dropin")
    print(json.dumps({"refusal": refusal.decode()}))


def main():
    name, way, *arguments = sys.argv[1:]
    if name in ("stacks", "collections"):
        wrong = ctypes.CDLL(os.environ["FRAGSCOPE_ALLOC"]).fragscope_configure(b"stacks", arguments.pop().encode())
        assert not wrong
    if way in ("attach", "dropin"):
        attached.install(way)
    if way == "middle":
        before = mixture(9, 500)[0]
        attached.install()
        before.append(mixture(10, 300)[0])
        del before[::3]
    globals()[f"run_{name}"](*arguments)


if __name__ == "__main__":
    main()
