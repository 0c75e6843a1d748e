// SPDX-License-Identifier: Apache-2.0
// One record of a trace: what the allocator decided, in 64 bytes. The same bytes stand in the
// shared-memory ring and in a file. This is a binary interface between processes and between
// versions: fields are only added, in reserved space; docs/trace_format.md is its specification.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace fragscope::trace {

/// What a record tells. Numbers are never used again; a reader skips and counts those it does not
/// know. The comments say what address, size and other mean.
enum class RecordKind : std::uint8_t {
  kNone = 0,
  kSegmentAlloc = 1,    ///< Its start, its size; 0.
  kSegmentFree = 2,     ///< Its start, its size; 0.
  kSegmentMap = 3,      ///< Start and size of the pages; start of their address space.
  kSegmentUnmap = 4,    ///< Start and size of the pages; start of their address space.
  kAlloc = 5,           ///< Block and its size; bytes requested.
  kSplit = 6,           ///< Front block and its size; size of the rest behind it.
  kMerge = 7,           ///< Block and its size after the merge; start of what it absorbed.
  kFreeRequested = 8,   ///< Block and its size; bytes requested.
  kFreeCompleted = 9,   ///< Block and its size; bytes requested.
  kOutOfMemory = 10,    ///< Free bytes of the device, rounded size; bytes requested.
  kCacheRelease = 11,   ///< 0, bytes given back; how many segments or page ranges.
  kRetry = 12,          ///< 0, bytes asked of the device; 0.
  kSettings = 13,       ///< Id of the text, 0; 1 behind a keyframe: not the last.
  kLimit = 14,          ///< 0, bytes that may be held (all bits: no limit); 0.
  kMark = 15,           ///< Id of the text, 1: begin, 2: end, 0: a point; 1: an annotation.
  kKeyframeBegin = 16,  ///< Number of this keyframe, blocks that follow; bytes held.
  kKeyframeBlock = 17,  ///< Block and its size; bytes requested.
  kKeyframeEnd = 18,    ///< Number of the keyframe, blocks that came before; 0.
  kSnapshot = 19,       ///< 0, bytes active; 0.
  kDeviceMemory = 20,   ///< Free bytes of the device, total bytes; bytes of other processes.
  kRecordStream = 21,   ///< Block and its size; the other stream's id.
  kClock = 22,          ///< CLOCK_MONOTONIC and Unix time at `ticks`, both in nanoseconds; 0.
  // Who uses the device: what belongs together stands together, and a kDeviceMemory ends it.
  kProcess = 23,           ///< Its pid as NVML shows it, its bytes (all bits: not known); its name.
  kThisProcess = 24,       ///< The same of the recorded process.
  kProcessesRefused = 25,  ///< Id of a text, why nobody can tell; 0, 0.
  kUnknownChanges = 26,    ///< 0; blocks change in ways that no record tells.
};

/// A stream or pool that the table had no room for.
inline constexpr std::uint32_t kUnknownStream = 0xffffffff;
inline constexpr std::uint16_t kUnknownPool = 0xffff;

/// Bits of `Record::flags`.
enum RecordFlag : std::uint8_t {
  kFlagLarge = 1,       ///< Class large; else small.
  kFlagExpandable = 2,  ///< Of an expandable segment.
  kFlagAllocated = 4,   ///< Keyframe: handed out.
  kFlagPending = 8,     ///< Keyframe: freed, waits for other streams.
  kFlagUnmapped = 16,   ///< Keyframe, merged: address space without memory.
  kFlagCapturing = 32,  ///< A graph was being captured.
  kFlagFirst = 64,      ///< Keyframe: the first block of its segment; the others follow in order.
};

/// What the writer fills in; the ring adds the commit word.
struct Record {
  std::uint64_t commit = 0;   ///< See `commit_word`; 0 in a slot that was never used.
  std::uint64_t ticks = 0;    ///< Of the clock that the header names.
  std::uint64_t address = 0;  ///< Bytes.
  std::uint64_t size = 0;     ///< Bytes.
  std::uint64_t other = 0;    ///< By the kind.
  std::uint32_t stream = 0;   ///< Id in the table; 0: the default stream.
  std::uint32_t thread = 0;   ///< The operating system's thread id.
  std::uint32_t stack = 0;    ///< Id in the table; 0: not recorded.
  std::uint16_t pool = 0;     ///< Id in the table; 0: the default pool.
  RecordKind kind = RecordKind::kNone;
  std::uint8_t flags = 0;
  std::uint8_t device = 0;  ///< Ordinal in the recorded process.
  std::uint8_t reserved[3] = {};
  /// By the kind. kSegmentAlloc to kSegmentUnmap: nanoseconds that the driver took (see
  /// `driver_time`), 0 where nobody measured. Keyframe, first block of a segment: rises in the
  /// order in which segments were obtained. Else 0.
  std::uint32_t detail = 0;
};

inline constexpr std::size_t kRecordBytes = 64;

static_assert(sizeof(Record) == kRecordBytes && alignof(Record) == 8);
static_assert(std::is_trivially_copyable_v<Record> && std::is_standard_layout_v<Record>);
static_assert(offsetof(Record, commit) == 0 && offsetof(Record, ticks) == 8);
static_assert(offsetof(Record, address) == 16 && offsetof(Record, size) == 24);
static_assert(offsetof(Record, other) == 32 && offsetof(Record, stream) == 40);
static_assert(offsetof(Record, thread) == 44 && offsetof(Record, stack) == 48);
static_assert(offsetof(Record, pool) == 52 && offsetof(Record, kind) == 54);
static_assert(offsetof(Record, flags) == 55 && offsetof(Record, device) == 56);
static_assert(offsetof(Record, detail) == 60);

/// What `Record::detail` holds for a call of the driver that took so many nanoseconds: at least 1,
/// and `kLongestDriverTime` for all that is longer, 4.3 s.
inline constexpr std::uint32_t kLongestDriverTime = 0xffffffff;
[[nodiscard]] constexpr std::uint32_t driver_time(std::uint64_t nanoseconds) {
  return static_cast<std::uint32_t>(
      std::clamp(nanoseconds, std::uint64_t{1}, std::uint64_t{kLongestDriverTime}));
}

/// The commit word of the finished record with this number (0, 1, 2, ...). It says which round of
/// the ring the slot holds.
[[nodiscard]] constexpr std::uint64_t commit_word(std::uint64_t number) {
  return number + 1;
}
/// The commit word while that record is being written.
[[nodiscard]] constexpr std::uint64_t writing_word(std::uint64_t number) {
  return (number + 1) | (std::uint64_t{1} << 63);
}

}  // namespace fragscope::trace
