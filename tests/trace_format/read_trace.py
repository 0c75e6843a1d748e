#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second reader of traces, written from docs/trace_format.md alone: takes a ring or a file, replays
it into a heap, and prints what it says as JSON. Shares nothing with trace/; where the two disagree,
the document decides. usage: read_trace.py FILE"""

import json
import struct
import sys
from collections import Counter
from statistics import median

try:
    from compression import zstd  # from Python 3.14 on
except ImportError:
    zstd = None

MAGIC = b"FSTRACE\0"
CHUNK_MAGIC = b"FSCK"
MAJOR = 1
KNOWN_HEADER = 1480
KNOWN_RECORD = 64
BEING_WRITTEN = 1 << 63
CHUNK_LIMIT = 16 << 20

STARTING = 0
RING, FILE = range(2)
LARGE, EXPANDABLE, HANDED_OUT, PENDING, UNMAPPED, CAPTURING, FIRST = 1, 2, 4, 8, 16, 32, 64
RECORDS, TABLE, END = 1, 2, 3
TEXT, FRAME, STACK, STREAM, POOL, FACT = range(1, 7)

KINDS = {
    1: "segment allocated",
    2: "segment freed",
    3: "pages mapped",
    4: "pages unmapped",
    5: "block handed out",
    6: "block split",
    7: "blocks merged",
    8: "free requested",
    9: "free completed",
    10: "out of memory",
    11: "cache released",
    12: "retry",
    13: "settings",
    14: "limit",
    15: "mark",
    16: "keyframe begins",
    17: "block of a keyframe",
    18: "keyframe ends",
    19: "snapshot taken",
    20: "device memory",
    21: "record_stream",
    22: "clock",
    23: "process",
    24: "this process",
    25: "processes refused",
    26: "unknown changes",
}


class Refused(Exception):
    """The bytes are no trace that this reader can take."""


class Contradiction(Exception):
    """A record does not fit the heap that the records before it made."""

    def __init__(self, record, problem):
        super().__init__(f"record {record.number} ({KINDS[record.kind]}): {problem}")


class Header:
    FIELDS = {
        "version_major": (8, "<H"),
        "version_minor": (10, "<H"),
        "header_bytes": (12, "<I"),
        "record_bytes": (16, "<I"),
        "state": (20, "<I"),
        "record_offset": (24, "<Q"),
        "record_capacity": (32, "<Q"),
        "table_offset": (40, "<Q"),
        "table_bytes": (48, "<Q"),
        "written": (56, "<Q"),
        "dropped": (64, "<Q"),
        "table_used": (72, "<Q"),
        "table_refused": (80, "<Q"),
        "device": (92, "<i"),
        "pid": (184, "<I"),
        "device_total_bytes": (208, "<Q"),
        "form": (1432, "<I"),
        "source": (1436, "<H"),
        "beginning": (1438, "<H"),
        "failures": (1440, "<Q"),
        "keyframes_refused": (1448, "<Q"),
        "overwritten": (1456, "<Q"),
        "torn": (1464, "<Q"),
        "damaged": (1472, "<Q"),
    }

    def __init__(self, data):
        if data[:8] != MAGIC:
            raise Refused("not a trace: it does not begin with FSTRACE")
        if len(data) < KNOWN_HEADER:
            raise Refused("cut off inside its header")
        for name, (offset, form) in self.FIELDS.items():
            setattr(self, name, struct.unpack_from(form, data, offset)[0])
        if self.version_major != MAJOR:
            version = f"{self.version_major}.{self.version_minor}"
            raise Refused(f"version {version}; this reader takes {MAJOR}.x")
        if self.state == STARTING:
            raise Refused("still starting: nothing in it can be trusted")
        self.reason = text(data[1176:1432])
        self.conf = text(data[408:920])
        if self.header_bytes < KNOWN_HEADER:
            raise Refused(f"a header of {self.header_bytes} bytes")
        if self.record_bytes < KNOWN_RECORD:
            raise Refused(f"records of {self.record_bytes} bytes")
        if self.form not in (RING, FILE):
            raise Refused(f"form {self.form} is not known")


class Record:
    __slots__ = (
        "number",
        "ticks",
        "address",
        "size",
        "other",
        "stream",
        "thread",
        "stack",
        "pool",
        "kind",
        "flags",
        "device",
        "detail",
    )
    LAYOUT = struct.Struct("<QQQQIIIHBBB3xI")

    def __init__(self, number, data, offset):
        self.number = number
        (
            self.ticks,
            self.address,
            self.size,
            self.other,
            self.stream,
            self.thread,
            self.stack,
            self.pool,
            self.kind,
            self.flags,
            self.device,
            self.detail,
        ) = self.LAYOUT.unpack_from(data, offset + 8)


class Trace:
    """The header in force, the sound records in order, the table, and what is missing."""

    def __init__(self):
        self.header = None
        self.records = []
        self.end = 0
        self.table = b""
        self.overwritten = 0
        self.torn = 0
        self.damaged = 0


def text(data):
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")


def padded(size):
    return (size + 7) // 8 * 8


def commit_of(data, offset):
    return struct.unpack_from("<Q", data, offset)[0]


def read_ring(header, data):
    capacity, stride = header.record_capacity, header.record_bytes
    if capacity == 0 or capacity & (capacity - 1):
        raise Refused(f"a capacity of {capacity} records is no power of two")
    if header.record_offset + capacity * stride > len(
        data
    ) or header.table_offset + header.table_bytes > len(data):
        raise Refused("a part lies outside of the file")
    if header.table_used > header.table_bytes:
        raise Refused("more of the table is used than there is")

    def slot(number):
        return header.record_offset + number % capacity * stride

    trace = Trace()
    trace.header = header
    trace.table = data[header.table_offset : header.table_offset + header.table_used]
    trace.end = header.written
    behind = commit_of(data, slot(header.written))
    if behind == header.written + 1:
        trace.end += 1
    elif behind == (header.written + 1) | BEING_WRITTEN:
        trace.torn = 1
    begin = max(0, trace.end - capacity)
    trace.overwritten = begin
    for number in range(begin, trace.end):
        commit = commit_of(data, slot(number))
        if commit == number + 1:
            trace.records.append(Record(number, data, slot(number)))
        elif commit & ~BEING_WRITTEN in range(number + 1 + capacity, BEING_WRITTEN, capacity):
            trace.overwritten += 1
        else:
            trace.damaged += 1
    return trace


def unpacked(codec, payload, size):
    if codec == 0:
        result = payload
    elif codec == 1:
        if zstd is None:
            raise Refused("a chunk is packed with zstd, which this Python does not have")
        result = zstd.decompress(payload)
    else:
        raise Refused(f"codec {codec} is not known")
    if len(result) != size:
        raise Refused(f"a chunk of {size} bytes has {len(result)}")
    return result


def read_file(header, data):
    trace = Trace()
    trace.header = header
    offset = header.header_bytes
    table = bytearray()
    ended = False
    gaps = 0
    while not ended and offset + 32 <= len(data):
        magic, kind, codec, first, size, stored = struct.unpack_from("<4sHHQQQ", data, offset)
        if magic != CHUNK_MAGIC:
            raise Refused(f"no chunk begins at byte {offset}")
        if offset + 32 + padded(stored) > len(data):
            break  # cut off
        if kind in (RECORDS, TABLE, END) and size > CHUNK_LIMIT:
            raise Refused(f"a chunk of {size} bytes")
        payload = b""
        if kind in (RECORDS, TABLE, END):
            payload = unpacked(codec, data[offset + 32 : offset + 32 + stored], size)
        offset += 32 + padded(stored)
        if kind == RECORDS:
            if size % header.record_bytes:
                raise Refused("a chunk ends inside a record")
            if first < trace.end:
                raise Refused("records go back")
            gaps += first - trace.end
            for index in range(size // header.record_bytes):
                if commit_of(payload, index * header.record_bytes) == first + index + 1:
                    trace.records.append(
                        Record(first + index, payload, index * header.record_bytes)
                    )
                else:
                    trace.damaged += 1
            trace.end = first + size // header.record_bytes
        elif kind == TABLE:
            if first != len(table):
                raise Refused("a piece of the table is missing")
            table += payload
        elif kind == END:
            trace.header = Header(payload)
            gaps += first - trace.end
            trace.end = first
            ended = True
    trace.table = bytes(table)
    if ended:
        trace.overwritten = trace.header.overwritten
        trace.torn = trace.header.torn
        trace.damaged += trace.header.damaged
    else:
        trace.overwritten = gaps
    return trace


def read(data):
    header = Header(data)
    if header.header_bytes > len(data):
        raise Refused("cut off inside its header")
    return read_ring(header, data) if header.form == RING else read_file(header, data)


class Table:
    def __init__(self, data):
        self.entries = {kind: {} for kind in range(1, 7)}
        offset = 0
        while offset + 16 <= len(data):
            kind, number, size = struct.unpack_from("<III", data, offset)
            if offset + 16 + size > len(data):
                break
            self.entries.setdefault(kind, {})[number] = data[offset + 16 : offset + 16 + size]
            offset += 16 + padded(size)

    def text(self, number):
        value = self.entries[TEXT].get(number)
        return None if value is None else value.decode("utf-8", "replace")

    def facts(self):
        pairs = [struct.unpack_from("<II", entry) for _, entry in sorted(self.entries[FACT].items())]
        return {self.text(name): self.text(value) for name, value in pairs}

    def innermost(self, stack):
        """(function, file, line) of a stack's innermost frame; None where it is not known."""
        ids = self.entries[STACK].get(stack)
        if ids is None or len(ids) < 4:
            return None
        frame = self.entries[FRAME].get(struct.unpack_from("<I", ids)[0])
        if frame is None:
            return None
        function, file, line = struct.unpack_from("<III", frame)
        return self.text(function), self.text(file), line


class Block:
    __slots__ = ("segment", "size", "state", "requested", "stack")

    def __init__(self, segment, size, state=0, requested=0, stack=0):
        self.segment = segment
        self.size = size
        self.state = state
        self.requested = requested
        self.stack = stack

    def same(self, other):
        mine = (self.segment, self.size, self.state)
        if self.state == 0:
            return mine == (other.segment, other.size, other.state)
        return (*mine, self.requested, self.stack) == (
            other.segment,
            other.size,
            other.state,
            other.requested,
            other.stack,
        )


class Heap:
    """Mapped blocks by their start. Each has the start of its segment or address space."""

    def __init__(self):
        self.blocks = {}

    def free_block(self, start, record):
        block = self.blocks.get(start)
        if block is None or block.state != 0:
            raise Contradiction(record, f"no free block at {start:#x}")
        return block

    def add(self, record, segment):
        if record.address in self.blocks:
            raise Contradiction(record, "a block stands there")
        self.blocks[record.address] = Block(segment, record.size)

    def take_out(self, record):
        """Freed or unmapped memory was one whole free block, see kind 2 and kind 4."""
        block = self.free_block(record.address, record)
        if block.size != record.size:
            raise Contradiction(record, f"the block has {block.size} bytes")
        del self.blocks[record.address]

    def split(self, record):
        block = self.free_block(record.address, record)
        if record.size + record.other != block.size:
            raise Contradiction(record, f"the block has {block.size} bytes")
        block.size = record.size
        self.blocks[record.address + record.size] = Block(block.segment, record.other)

    def merge(self, record):
        front = self.free_block(record.address, record)
        start = record.address + front.size if record.other == record.address else record.other
        rear = self.free_block(start, record)
        if record.address + front.size != start or front.size + rear.size != record.size:
            raise Contradiction(record, f"they do not make {record.size} bytes")
        if front.segment != rear.segment:
            raise Contradiction(record, "of two segments")
        front.size = record.size
        del self.blocks[start]

    def change(self, record, before, after):
        block = self.blocks.get(record.address)
        if block is None or block.state != before or block.size != record.size:
            raise Contradiction(record, f"no such block at {record.address:#x}")
        block.state = after
        if record.kind == 5:
            block.requested, block.stack = record.other, record.stack
        elif block.requested != record.other:
            raise Contradiction(record, f"{block.requested} bytes were requested")

    def apply(self, record):
        kind = record.kind
        if kind == 7 and record.flags & UNMAPPED:
            return  # address space without memory is no part of this heap
        if kind == 1:
            self.add(record, record.address)
        elif kind == 3:
            self.add(record, record.other)
        elif kind in (2, 4):
            self.take_out(record)
        elif kind == 5:
            self.change(record, 0, HANDED_OUT)
        elif kind == 6:
            self.split(record)
        elif kind == 7:
            self.merge(record)
        elif kind == 8:
            self.change(record, HANDED_OUT, PENDING)
        elif kind == 9:
            self.change(record, PENDING, 0)

    def figures(self):
        """Segments as snapshots count them: each unbroken run of mapped pages is one."""
        count = Counter()
        segments = 0
        segment = behind = None
        for start in sorted(self.blocks):
            block = self.blocks[start]
            segments += (block.segment, start) != (segment, behind)
            segment, behind = block.segment, start + block.size
            count["reserved_bytes"] += block.size
            count[block.state] += block.size
            count["requested_bytes"] += block.requested if block.state == HANDED_OUT else 0
            count["holes"] += block.state == 0
        return {
            "reserved_bytes": count["reserved_bytes"],
            "allocated_bytes": count[HANDED_OUT],
            "active_bytes": count[HANDED_OUT] + count[PENDING],
            "pending_bytes": count[PENDING],
            "requested_bytes": count["requested_bytes"],
            "segments": segments,
            "blocks": len(self.blocks),
            "holes": count["holes"],
        }


MIB = 1 << 20


class Rules:
    """Those of PyTorch's options that sizes depend on; the others do not matter here."""

    def __init__(self, conf):
        options = dict(part.split(":", 1) for part in conf.split(",") if ":" in part)
        self.expandable = options.get("expandable_segments") == "True"
        self.max_split = int(options.get("max_split_size_mb", 1 << 40)) * MIB
        self.divisions = int(options.get("roundup_power2_divisions", 0))

    def rounded(self, size):
        if self.divisions > 1 and size > 512 * self.divisions:
            power = 1 << (size.bit_length() - 1)
            step = power // self.divisions
            return size if size == power else (size + step - 1) // step * step
        return max(512, (size + 511) // 512 * 512)

    def splits(self, available, size, large):
        if not large or self.expandable:
            return available - size >= 512
        return size < self.max_split and available - size > MIB


class NativeHeap(Heap):
    """Of PyTorch's own allocator: derives what its records leave out."""

    def __init__(self, device_bytes):
        super().__init__()
        self.reserve = device_bytes * 9 // 8
        self.homes = {}  # of segments and address spaces, by their start
        self.large = set()  # of them
        self.ends = {}  # of free blocks: the end, and where it begins

    def take_keyframe(self, records):
        self.blocks = {}
        base = None
        for record in records:
            home = (record.stream, record.pool, record.flags & LARGE, record.flags & EXPANDABLE)
            if record.flags & FIRST:
                goes_on = (record.flags & EXPANDABLE and self.homes.get(base) == home
                           and record.address - base < self.reserve)
                base = base if goes_on else record.address
                self.homes[base] = home
            if record.flags & LARGE:
                self.large.add(base)
            state = PENDING if record.flags & PENDING else record.flags & HANDED_OUT
            self.blocks[record.address] = Block(
                base, record.size, state, record.other if state else 0, record.stack
            )
        self.ends = {at + each.size: at for at, each in self.blocks.items() if each.state == 0}

    def base_of_pages(self, record):
        home = (record.stream, record.pool, record.flags & LARGE, EXPANDABLE)
        used = {block.segment for block in self.blocks.values()}
        same = [base for base in used if self.homes.get(base) == home]
        below = [base for base in same if base <= record.address]
        if below and record.address - max(below) < self.reserve:
            return max(below)
        above = [base for base in same if base > record.address]
        if above and min(above) - record.address < self.reserve:
            for block in self.blocks.values():
                if block.segment == min(above):
                    block.segment = record.address
        self.homes[record.address] = home
        if record.flags & LARGE:
            self.large.add(record.address)
        return record.address

    def cut(self, start, size):
        """The free block there becomes two."""
        block = self.blocks[start]
        rest = Block(block.segment, block.size - size)
        self.ends[start + block.size] = start + size
        block.size = size
        self.ends[start + size] = start
        self.blocks[start + size] = rest

    def join(self, start):
        block = self.blocks[start]
        behind = self.blocks.get(start + block.size)
        if behind is not None and behind.state == 0 and behind.segment == block.segment:
            del self.ends[start + block.size]
            del self.blocks[start + block.size]
            block.size += behind.size
            self.ends[start + block.size] = start
        front = self.ends.get(start)
        if front is not None and self.blocks[front].segment == block.segment:
            del self.ends[start]
            del self.blocks[start]
            self.blocks[front].size += block.size
            self.ends[start + block.size] = front

    def comes(self, record, segment):
        self.add(record, segment)
        self.ends[record.address + record.size] = record.address

    def goes(self, record):
        end = record.address + record.size
        start = next((at for at, each in self.blocks.items() if each.state == 0
                      and at <= record.address and at + each.size >= end), None)
        if start is None:
            raise Contradiction(record, "no free block around it")
        if start < record.address:
            self.cut(start, record.address - start)
        if self.blocks[record.address].size > record.size:
            self.cut(record.address, record.size)
        self.take_out(record)
        del self.ends[end]

    def hand_out(self, record, rules):
        block = self.free_block(record.address, record)
        size = rules.rounded(record.other)
        if size > block.size:
            raise Contradiction(record, f"the block has {block.size} bytes")
        if rules.splits(block.size, size, block.segment in self.large):
            self.cut(record.address, size)
        del self.ends[record.address + block.size]
        block.state, block.requested, block.stack = HANDED_OUT, record.other, record.stack

    def free(self, record):
        block = self.blocks.get(record.address)
        if block is None or block.state == 0:
            raise Contradiction(record, f"no such block at {record.address:#x}")
        if record.kind == 8:
            block.state = PENDING
            return
        block.state = 0
        self.ends[record.address + block.size] = record.address
        self.join(record.address)

    def apply_native(self, record, rules):
        kind = record.kind
        if kind == 1:
            home = (record.stream, record.pool, record.flags & LARGE, 0)
            self.homes[record.address] = home
            self.large.discard(record.address)
            if record.flags & LARGE:
                self.large.add(record.address)
            self.comes(record, record.address)
        elif kind == 3:
            self.comes(record, self.base_of_pages(record))
            self.join(record.address)
        elif kind in (2, 4):
            self.goes(record)
        elif kind == 5:
            self.hand_out(record, rules)
        elif kind in (8, 9):
            self.free(record)


def replay_native(trace, table):
    """As `Replay.run`, for a trace of PyTorch's own allocator."""
    header = trace.header
    replay = Replay(header)
    rules = Rules(header.conf)
    by_number = {record.number: record for record in trace.records}
    earlier = {record.number - record.stack: record
               for record in trace.records if record.kind == 16 and record.stack}
    expected = 0 if trace.records else trace.end
    for record in trace.records:
        if record.number != expected:
            replay.heap = replay.begun = None
        elif record.number == 0 and header.beginning == 0:
            replay.heap, replay.begun = NativeHeap(header.device_total_bytes), 0
        expected = record.number + 1
        if record.kind == 13:
            rules = Rules(table.text(record.address) or "")
        elif record.kind == 26:
            replay.heap = None
        elif record.kind == 10:
            replay.fail(record)
        elif replay.heap is not None:
            try:
                replay.heap.apply_native(record, rules)
            except Contradiction as problem:
                replay.contradict(problem)  # left out
        begin = earlier.get(record.number)
        if begin is not None:
            numbers = range(begin.number + 1, begin.number + 1 + begin.size)
            blocks = [by_number.get(number) for number in numbers]
            last = by_number.get(numbers.stop)
            if None not in blocks and last is not None and last.kind == 18:
                replay.take_earlier(record, blocks)
    if expected != trace.end:
        replay.heap = None
    return replay


def heap_of_keyframe(records):
    heap = Heap()
    segment = None
    behind = None
    for record in records:
        if record.flags & FIRST:
            segment = record.address
        elif segment is None or record.address != behind:
            raise Contradiction(record, "does not follow the one before")
        behind = record.address + record.size
        if not record.flags & UNMAPPED:
            state = PENDING if record.flags & PENDING else record.flags & HANDED_OUT
            heap.blocks[record.address] = Block(
                segment, record.size, state, record.other if state else 0, record.stack
            )
    return heap


class Replay:
    def __init__(self, header):
        self.is_middle = header.beginning == 1
        self.device_bytes = header.device_total_bytes
        self.heap = None
        self.begun = None  # number of the first record whose heap is known
        self.keyframe = None  # its 16, as long as what follows is what it announced
        self.keyframe_blocks = []
        self.keyframes = 0
        self.failures = []
        self.contradictions = []

    def contradict(self, problem):
        self.contradictions.append(str(problem))

    def keyframe_ends(self, record):
        first = self.keyframe
        self.keyframe = None
        if (
            first is None
            or record.address != first.address
            or record.size != first.size
            or len(self.keyframe_blocks) != first.size
        ):
            return
        try:
            heap = heap_of_keyframe(self.keyframe_blocks)
        except Contradiction as problem:
            self.contradict(problem)
            return
        held = sum(block.size for block in heap.blocks.values())
        if held != first.other:
            self.contradict(Contradiction(first, f"{held} bytes in its blocks, not {first.other}"))
        if self.heap is not None and self.heap.blocks and not self.equal(heap):
            self.contradict(Contradiction(record, "another heap than the records made"))
        self.keyframes += 1
        self.heap = heap
        if self.begun is None:
            self.begun = record.number + 1

    def equal(self, heap):
        blocks = self.heap.blocks
        return blocks.keys() == heap.blocks.keys() and all(
            blocks[at].same(block) for at, block in heap.blocks.items()
        )

    def take_earlier(self, record, blocks):
        """A keyframe that stands further on states the heap as it is here."""
        heap = NativeHeap(self.device_bytes)
        heap.take_keyframe(blocks)
        if self.heap is not None and self.heap.blocks and not self.looks_equal(heap):
            self.contradict(Contradiction(record, "another heap than the records made"))
        self.keyframes += 1
        if self.heap is None:
            self.heap = heap
        if self.begun is None:
            self.begun = record.number + 1

    def looks_equal(self, heap):
        """Where address spaces begin a snapshot does not say."""
        def shape(blocks):
            return {at: (each.size, each.state, each.requested if each.state else 0)
                    for at, each in blocks.items()}
        return shape(self.heap.blocks) == shape(heap.blocks)

    def fail(self, record):
        self.failures.append(
            {
                "record": record.number,
                "rounded": record.size,
                "requested": record.other,
                "device_free": record.address,
                "heap": None if self.heap is None else self.heap.figures(),
            }
        )

    def run(self, records, end, device):
        expected = 0 if records else end
        for record in records:
            if record.number != expected:
                self.heap = self.begun = self.keyframe = None
            elif record.number == 0 and not self.is_middle:
                self.heap, self.begun = Heap(), 0
            expected = record.number + 1
            if record.device != device & 0xFF:
                continue
            if record.kind == 16:
                self.keyframe, self.keyframe_blocks = record, []
            elif record.kind == 17:
                self.keyframe_blocks.append(record)
            elif record.kind == 18:
                self.keyframe_ends(record)
            else:
                self.keyframe = None
                if record.kind == 10:
                    self.fail(record)
                if record.kind == 26:
                    self.heap = None
                if self.heap is not None:
                    try:
                        self.heap.apply(record)
                    except Contradiction as problem:
                        self.contradict(problem)  # left out
        if expected != end:
            self.heap = None
        return self


def use_behind(records, number, table):
    """Who used the device at the failure of this number: what stands behind it, up to a record 20.
    None: nobody said; else processes, or why they are not known."""
    processes, refusal = [], None
    for record in records:
        if record.number <= number or record.kind in (13, 14, 16, 17, 18, 22):
            continue
        if record.kind not in (23, 24, 25):
            break
        if record.kind == 25:
            refusal = table.text(record.address) or "the reason is not in the trace"
        else:
            is_known = record.size not in (0, (1 << 64) - 1)
            processes.append({"pid": record.address, "name": table.text(record.other),
                              "used_bytes": record.size if is_known else None,
                              "this": record.kind == 24})
    return refusal or processes or None


def mark_of(record, table):
    return {"what": {1: "begin", 2: "end"}.get(record.size, "point"), "text": table.text(record.address),
            "source": "annotation" if record.other == 1 else "program",
            "ticks": record.ticks, "thread": record.thread}


def driver_times(records):
    """What the driver took for its calls, by kind; None where nobody measured."""
    took = {kind: [record.detail for record in records if record.kind == kind and record.detail]
            for kind in (1, 2, 3, 4)}
    return {KINDS[kind]: {"calls": len(each), "median_ns": int(median(each)), "total_ns": sum(each)}
            if each else None for kind, each in took.items()}


def frame_name(frame):
    if frame is None:
        return "not recorded"
    function, file, line = frame
    return f"{function} ({file}:{line})"


def describe(trace):
    table = Table(trace.table)
    header = trace.header
    if header.source == 1:
        replay = replay_native(trace, table)
    else:
        replay = Replay(header).run(trace.records, trace.end, header.device)
    kinds = Counter(KINDS.get(record.kind, f"unknown {record.kind}") for record in trace.records)
    result = {
        "reason": header.reason,
        "form": "ring" if header.form == RING else "file",
        "first": trace.records[0].number if trace.records else trace.end,
        "end": trace.end,
        "records": len(trace.records),
        "kinds": dict(sorted(kinds.items())),
        "lost": {
            "overwritten": trace.overwritten,
            "torn": trace.torn,
            "damaged": trace.damaged,
            "dropped": header.dropped,
        },
        "failures": replay.failures,
        "failures_of_header": header.failures,
        "facts": table.facts(),
        "marks": [mark_of(record, table) for record in trace.records
                  if record.kind == 15 and record.device == header.device],
        "uses": {each["record"]: use_behind(trace.records, each["record"], table)
                 for each in replay.failures},
        "driver_times": driver_times(trace.records),
        "known_from": replay.begun,
        "keyframes": replay.keyframes,
        "contradictions": replay.contradictions,
        "heap": None,
        "frames": None,
    }
    if replay.heap is not None:
        blocks = replay.heap.blocks.values()
        handed_out = [block for block in blocks if block.state == HANDED_OUT]
        frames = Counter()
        for block in handed_out:
            frames[frame_name(table.innermost(block.stack))] += block.size
        result["heap"] = replay.heap.figures()
        result["frames"] = dict(sorted(frames.items()))
    return result


def read_path(path):
    with open(path, "rb") as file:
        return read(file.read())


def main(arguments):
    if len(arguments) != 1:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        result = describe(read_path(arguments[0]))
    except (OSError, Refused) as problem:
        print(f"read_trace: {arguments[0]}: {problem}", file=sys.stderr)
        return 1
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
