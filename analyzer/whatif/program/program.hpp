// SPDX-License-Identifier: Apache-2.0
// What a recorded program asked of the allocator, without what the allocator decided: it can be run
// again under the same settings, or others. And beside it what was decided then, so that a second
// run can be compared. Made from a trace (`program_of_trace`) or from a PyTorch snapshot with
// history (`program_of_snapshot`); run by `Replay`.
#pragma once

#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/inspect/heap_image.hpp"
#include "analyzer/recording/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::whatif {

enum class OpKind : std::uint8_t {
  kAllocate,      ///< `bytes` on `stream` out of `pool`; the block goes by `slot` from here on.
  kFree,          ///< What `slot` holds.
  kRecordStream,  ///< What `slot` holds is used on `stream`, too.
  kComplete,      ///< The streams that used what `slot` held are done with it.
  kEmptyCache,    ///< All of it, or what `pool` has alone.
  /// The driver got memory back just before the request that follows: it was the program's doing if
  /// the cache could have served that request, else the request's own (`settle`).
  kRelease,
  kReleasePool,  ///< Nobody uses `pool` at the op that follows,
  kUsePool,      ///< and somebody does again.
  kLimit,        ///< At most `bytes` may be held; all bits: no limit.
  kSettings,     ///< The option string `bytes` of `texts`.
  kExpandable,   ///< From here on segments are expandable (`bytes` 1) or plain (0), as was seen.
  kCapture,      ///< A graph capture begins (`bytes` 1) or ends (0).
  kMark,         ///< Text `bytes` of `texts`; `pool` 1: a stage begins, 2: ends, 0: a point.
};

/// `slot`s are numbers of blocks, used again once a block is gone.
struct Op {
  OpKind kind = OpKind::kAllocate;
  bool failed : 1 = false;  ///< The recorded request was refused; nothing takes its slot.
  bool retried : 1 =
      false;  ///< As recorded: refused at first, and asked once more after a release.
  bool in_capture : 1 = false;  ///< It gave nothing back, as within the capture of a graph.
  std::uint16_t pool = 0;       ///< Of `Program::pools`.
  std::uint32_t slot = 0;
  std::uint64_t bytes = 0;
  std::uint32_t stream = 0;  ///< Of `Program::streams`.
  std::uint32_t event = 0;   ///< In the recording, counted from its first.
};
static_assert(sizeof(Op) == 24, "millions of them are held at once");

/// What the recorded allocator did with the driver on behalf of an op.
struct DeviceCall {
  enum class Kind : std::uint8_t { kAllocate, kFree, kMap, kUnmap };
  Kind kind = Kind::kAllocate;
  std::uint32_t op = 0;
  policy::Address address = 0;
  std::uint64_t size = 0;
  policy::Address base = 0;       ///< Of the address space; 0: not known.
  bool is_first_try = false;      ///< Of an op that was `retried`: before it asked once more.
  std::uint32_t nanoseconds = 0;  ///< That the driver took; 0: not measured.
};
/// How many `DeviceCall::Kind`s there are.
inline constexpr std::size_t kDeviceCallKinds = 4;

/// How much memory is taken for a device's of which that is not known: only the address space of
/// expandable segments follows from it.
inline constexpr std::uint64_t kUnknownDeviceBytes = std::uint64_t{1} << 40;

struct Program {
  policy::TorchVersion version = policy::TorchVersion::kTorch215;
  policy::AllocatorConf conf;  ///< The options at the start.
  std::optional<std::uint64_t> limit_bytes;
  std::uint64_t device_bytes = 0;  ///< All of the device's memory; 0: not known.
  /// Memory of the device that this allocator does not hold, as last seen at a failure, or at any
  /// moment if there was none; none: never seen.
  std::optional<std::uint64_t> outside_bytes;

  /// What this allocator could hold at the last failure: what it held and what was free beside it.
  std::optional<std::uint64_t> available_bytes;

  policy::HeapImage start;
  std::vector<std::uint32_t> start_slots;  ///< Of the blocks handed out in it, in its order.
  std::uint32_t slot_count = 0;
  std::vector<policy::PoolId> pools{policy::PoolId{}};
  std::vector<policy::StreamId> streams{0};
  std::vector<std::string> texts;
  model::EventIndex first_event = 0;

  /// Whether the recording shows what the allocator decided: a log of requests alone does not.
  bool has_decisions = true;

  std::vector<Op> ops;
  std::vector<policy::Address> addresses;  ///< Of each op; what kAllocate got, else 0.
  std::vector<DeviceCall> device_calls;    ///< In the order of ops.
  std::vector<std::string> doubts;         ///< What the recording does not show, and was assumed.

  [[nodiscard]] std::uint64_t total_bytes() const {
    return device_bytes == 0 ? kUnknownDeviceBytes : device_bytes;
  }
  [[nodiscard]] model::EventIndex event_of(const Op& op) const { return first_event + op.event; }
};

}  // namespace fragscope::whatif
