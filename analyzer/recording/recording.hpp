// SPDX-License-Identifier: Apache-2.0
// What any reader hands to the analyzer: the state a recording ends with (segments and the blocks
// that tile them), the events that led there, and the settings. Readers in `analyzer/ingest` fill
// it; `Timeline` rebuilds earlier states from it. Of a trace the events stay in the file, and
// `TraceHistory` walks over them. Sizes and addresses are bytes, as the device sees
// them; times are microseconds since the Unix epoch.
#pragma once

#include "allocator/policy/size_rules.hpp"
#include "analyzer/recording/ids.hpp"
#include "analyzer/recording/large_vector.hpp"
#include "analyzer/recording/stack_table.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fragscope::model {

using policy::SizeClass;

/// What a trace entry says happened. `kOther`: an action this version does not know; kept so that
/// event numbers stay PyTorch's.
enum class Action : std::uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kOom,
  kSnapshot,
  kAnnotate,
  kOther,
};

inline constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::min();

/// One event. `size_bytes` means: the requested size for alloc and free, the segment's or range's
/// size for segment actions, the rounded size of the failed request for oom.
struct Event {
  std::uint64_t address = 0;  ///< Block or segment start; for oom the device's free bytes.
  std::uint64_t size_bytes = 0;
  std::int64_t stream = 0;
  std::int64_t time_us = kNoTime;
  StackId stack = kNoStack;
  PoolIndex pool = kUnknownPool;
  Action action = Action::kOther;
  bool has_address = false;  ///< For oom: whether the device's free bytes were recorded.
};
static_assert(sizeof(Event) == 40, "a million events are held at once");

enum class BlockState : std::uint8_t { kLive, kPending, kFree };

/// A piece of a segment at the end of the recording.
struct Block {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;  ///< Meaningful if `has_requested` and the block is not free.
  StackId stack = kNoStack;
  BlockState state = BlockState::kFree;
  bool has_requested = false;
};

/// The default pool is (0,0); graph pools are (k,0), user pools (0,k).
struct PoolId {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend bool operator==(const PoolId&, const PoolId&) = default;
};

/// One range obtained from the driver: a whole cudaMalloc, or one contiguous mapped range of an
/// expandable segment. `blocks` of the recording from `first_block` on tile it exactly.
struct Segment {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t stream = 0;
  std::uint32_t first_block = 0;
  std::uint32_t block_count = 0;
  std::int32_t device = 0;
  StackId stack = kNoStack;
  PoolIndex pool = kDefaultPool;
  SizeClass size_class = SizeClass::kLarge;
  bool expandable = false;
};

/// The allocator's settings at the time of the dump, as far as the file has them.
struct Settings {
  policy::SizeRules rules;
  std::optional<std::string> conf;  ///< PYTORCH_CUDA_ALLOC_CONF; none: the file has no settings.
  std::optional<double> memory_fraction;  ///< per_process_memory_fraction, where it was set.
  std::optional<std::uint64_t> device_total_bytes;  ///< Of the recorded device, in a trace.
  std::optional<std::uint64_t> limit_bytes;         ///< What may be held, in a trace.
};

/// A process on the device, as NVML showed it.
struct DeviceProcess {
  std::uint64_t pid = 0;
  /// None: NVML did not know, or said 0, which no process with a context uses.
  std::optional<std::uint64_t> used_bytes;
  std::string name;  ///< Empty: not known.
  bool is_this = false;
};

/// Who used a device at a moment.
struct DeviceUse {
  std::vector<DeviceProcess> processes;
  std::string refused;  ///< Why nobody could tell; empty: they are known.
};

/// What the program was doing, as it said itself.
struct Stage {
  std::string name;            ///< Empty: not known.
  bool is_annotation = false;  ///< Said by PyTorch's annotations; else by the program's marks.
  std::uint32_t thread = 0;    ///< The operating system's id.
  std::int64_t begin_us = 0;   ///< Since the Unix epoch.
};

/// Where something that the program named begins or ends, in a snapshot's list of annotations.
struct Annotation {
  StringId name{};
  std::int64_t time_us = kNoTime;
  std::int32_t device = 0;
  bool begins = false;  ///< Else it ends.
};

/// Something about the device or the driver that stayed so, such as {"driver", "570.1"}.
struct RecordedFact {
  std::string name;
  std::string value;
};

/// Something about the evidence that weakens it, and what it does to the numbers.
struct TrustSignal {
  std::string signal;
  std::string effect;
};

/// Requests that are known to have failed and cannot be judged: their record is missing, or the
/// heap that they met.
struct UnjudgedFailures {
  std::uint64_t count = 0;
  bool may_be_more = false;  ///< The file is cut short.
};

/// The events of one device, oldest first.
struct DeviceTrace {
  std::int32_t device = 0;
  std::uint32_t first_event = 0;
  std::uint32_t event_count = 0;
};

/// A whole recording. Movable only.
struct Recording {
  std::string kind;    ///< "torch-snapshot", ...
  std::string writer;  ///< As far as the file shows: "PyTorch 2.8 to 2.9".
  std::uint64_t input_bytes = 0;
  std::uint64_t event_count = 0;    ///< Of all devices.
  bool has_requested_sizes = true;  ///< False before PyTorch 2.0.
  Settings settings;
  StringTable strings;
  StackTable stacks;
  std::vector<PoolId> pools{PoolId{}};
  std::vector<Segment> segments;
  std::vector<Block> blocks;
  LargeVector<Event> events;
  std::vector<DeviceTrace> traces;
  std::vector<Annotation> annotations;  ///< Of a snapshot, as they came.
  std::vector<TrustSignal> trust;
  UnjudgedFailures unjudged_failures;
  std::vector<RecordedFact> facts;  ///< Of a trace.

  [[nodiscard]] std::span<const Event> events_of(const DeviceTrace& trace) const {
    return {events.data() + trace.first_event, trace.event_count};
  }
  [[nodiscard]] std::span<const Block> blocks_of(const Segment& segment) const {
    return {blocks.data() + segment.first_block, segment.block_count};
  }
};

}  // namespace fragscope::model
