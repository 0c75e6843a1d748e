// SPDX-License-Identifier: Apache-2.0
// The first page of a ring and of a file: what wrote it, how it is laid out, how far it got.
// docs/trace_format.md is its specification; the rules are those of record.hpp.
#pragma once

#include "trace/format/record.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace fragscope::trace {

/// "FSTRACE" and a zero byte; read as a number it shows the byte order.
inline constexpr std::array<char, 8> kMagic = {'F', 'S', 'T', 'R', 'A', 'C', 'E', '\0'};
inline constexpr std::uint16_t kVersionMajor = 1;  ///< A reader refuses another one.
inline constexpr std::uint16_t kVersionMinor = 0;  ///< Counts additions.

/// How recording goes, or ended.
enum class TraceState : std::uint32_t {
  kStarting = 0,  ///< The header is not complete: nothing else may be trusted.
  kRecording = 1,
  kEnded = 2,       ///< The writer closed it.
  kUnrecorded = 3,  ///< Something went wrong; `reason` says what. The job went on.
};

/// What `Record::ticks` counts.
enum class ClockKind : std::uint32_t {
  kMonotonicNs = 0,  ///< CLOCK_MONOTONIC in nanoseconds.
  kTsc = 1,          ///< The processor's time stamp counter; the two anchors give its rate.
};

/// How records lie behind the header.
enum class TraceForm : std::uint32_t {
  kRing = 0,  ///< In slots, see RingWriter.
  kFile = 1,  ///< In chunks, see chunk.hpp; offsets and capacity of the header mean nothing.
};

/// Whose decisions the records are.
enum class TraceSource : std::uint16_t {
  kFragscope = 0,      ///< Our allocator's: every record says all of it.
  kPytorchNative = 1,  ///< PyTorch's own: sizes of blocks, splits and merges are to be derived.
};

/// What the heap is before record 0.
enum class TraceBeginning : std::uint16_t {
  kEmpty = 0,   ///< No block.
  kMiddle = 1,  ///< Not known before the first keyframe.
};

/// One moment in three clocks.
struct ClockAnchor {
  std::uint64_t ticks = 0;
  std::uint64_t monotonic_ns = 0;
  std::uint64_t unix_ns = 0;
};

/// Who wrote it. A pid alone comes again; with the boot and the start it does not.
struct ProcessIdentity {
  std::array<char, 16> boot_id = {};    ///< Of the machine's start, raw.
  std::uint64_t start_ticks = 0;        ///< Of the process, from /proc/self/stat, field 22.
  std::array<char, 16> random_id = {};  ///< Of this recording.
  std::uint32_t pid = 0;
  std::uint32_t rank = 0;  ///< In a distributed job, plus 1; 0: none is known.
};

/// All texts are UTF-8, ended by a zero byte, cut where they do not fit.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint16_t version_major = kVersionMajor;
  std::uint16_t version_minor = kVersionMinor;
  std::uint32_t header_bytes = 0;  ///< Records and tables lie behind.
  std::uint32_t record_bytes = kRecordBytes;
  TraceState state = TraceState::kStarting;
  std::uint64_t record_offset = 0;    ///< From the start of the file, as all offsets.
  std::uint64_t record_capacity = 0;  ///< Slots. Record n lies in slot n modulo this.
  std::uint64_t table_offset = 0;
  std::uint64_t table_bytes = 0;

  // Counters. Only the writer changes them.
  std::uint64_t written = 0;        ///< Records that are finished; the next one has this number.
  std::uint64_t dropped = 0;        ///< Records that could not be written.
  std::uint64_t table_used = 0;     ///< Bytes of the table that are finished.
  std::uint64_t table_refused = 0;  ///< Entries for which it had no room.

  ClockKind clock = ClockKind::kMonotonicNs;
  std::int32_t device = 0;   ///< Ordinal in the process.
  ClockAnchor first_anchor;  ///< At the start,
  ClockAnchor last_anchor;   ///< and at the end.
  ProcessIdentity process;

  std::array<char, 16> device_uuid = {};  ///< Zeros: not known.
  std::uint64_t device_total_bytes = 0;

  std::array<char, 64> device_name = {};
  std::array<char, 64> library_version = {};
  std::array<char, 64> torch_version = {};
  std::array<char, 512> conf = {};     ///< PYTORCH_CUDA_ALLOC_CONF as the allocator took it.
  std::array<char, 256> command = {};  ///< The command line, arguments separated by spaces.
  std::array<char, 256> reason = {};   ///< Of kUnrecorded.

  TraceForm form = TraceForm::kRing;
  TraceSource source = TraceSource::kFragscope;
  TraceBeginning beginning = TraceBeginning::kEmpty;
  std::uint64_t failures = 0;           ///< Requests that ended out of memory.
  std::uint64_t keyframes_refused = 0;  ///< More blocks than the ring has room for.

  // Of a file: what became of records while the ring was drained into it.
  std::uint64_t overwritten = 0;  ///< The writer was faster.
  std::uint64_t torn = 0;         ///< Begun and never finished.
  std::uint64_t damaged = 0;      ///< Slots that held nothing sound.
};

static_assert(std::is_trivially_copyable_v<Header> && std::is_standard_layout_v<Header>);
static_assert(offsetof(Header, magic) == 0 && offsetof(Header, version_major) == 8);
static_assert(offsetof(Header, version_minor) == 10 && offsetof(Header, header_bytes) == 12);
static_assert(offsetof(Header, record_bytes) == 16 && offsetof(Header, state) == 20);
static_assert(offsetof(Header, record_offset) == 24 && offsetof(Header, record_capacity) == 32);
static_assert(offsetof(Header, table_offset) == 40 && offsetof(Header, table_bytes) == 48);
static_assert(offsetof(Header, written) == 56 && offsetof(Header, dropped) == 64);
static_assert(offsetof(Header, table_used) == 72 && offsetof(Header, table_refused) == 80);
static_assert(offsetof(Header, clock) == 88 && offsetof(Header, device) == 92);
static_assert(offsetof(Header, first_anchor) == 96 && offsetof(Header, last_anchor) == 120);
static_assert(offsetof(Header, process) == 144 && sizeof(ProcessIdentity) == 48);
static_assert(offsetof(Header, device_uuid) == 192 && offsetof(Header, device_total_bytes) == 208);
static_assert(offsetof(Header, device_name) == 216 && offsetof(Header, library_version) == 280);
static_assert(offsetof(Header, torch_version) == 344 && offsetof(Header, conf) == 408);
static_assert(offsetof(Header, command) == 920 && offsetof(Header, reason) == 1176);
static_assert(offsetof(Header, form) == 1432 && offsetof(Header, failures) == 1440);
static_assert(offsetof(Header, source) == 1436 && offsetof(Header, beginning) == 1438);
static_assert(offsetof(Header, keyframes_refused) == 1448);
static_assert(offsetof(Header, overwritten) == 1456 && offsetof(Header, torn) == 1464);
static_assert(offsetof(Header, damaged) == 1472 && sizeof(Header) == 1480);

/// Records begin on a page of their own.
inline constexpr std::uint64_t kHeaderBytes = 4096;
static_assert(sizeof(Header) <= kHeaderBytes);

}  // namespace fragscope::trace
