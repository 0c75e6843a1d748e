// SPDX-License-Identifier: Apache-2.0
// One out-of-memory message as read from a log: every printed figure as the interval that its
// rounding allows, who printed it and in which form. Plain data; `message_reader` fills it, `judge`
// decides what it proves.
#pragma once

#include "analyzer/model/heap_state.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::explain {

using model::Bounds;

enum class Backend : std::uint8_t { kCuda, kHip, kXpu, kMps, kNpu, kAsync, kNone };
[[nodiscard]] std::string_view to_string(Backend backend);

/// What kind of text it is, which decides what its figures mean.
enum class Shape : std::uint8_t {
  kOld,       ///< PyTorch 1.0 to 2.0: "(GPU 0; T total capacity; ...)"
  kNew,       ///< PyTorch 2.1 on: "GPU 0 has a total capacity of T of which F is free."
  kAsync,     ///< backend:cudaMallocAsync
  kMps,       ///< Apple
  kBeyond,    ///< "more than 1EB memory": refused before anything is tried
  kRejected,  ///< preemptively, by per_process_memory_fraction
  kRequest,   ///< Only what was asked for is printed.
  kBare,      ///< An error of the driver, a library or another framework, without figures.
  kHost,      ///< The host's memory, not a device's.
  kDoubtful,  ///< An error that is seen where memory is short, but has other causes, too.
  kReplaced,  ///< An NVML assertion that took the message's place.
  kCheck,     ///< A start-up check, no failed allocation.
  kAttempt,   ///< One attempt of the allocator that failed, with exact figures; it may go on.
};

struct ProcessUse {
  std::string pid;  ///< As printed.
  Bounds bytes;
};

/// A figure that the text does not have is empty; one that it prints as "not available" too.
struct Figures {
  std::optional<Bounds> request;  ///< As printed: what the driver was asked for.
  std::optional<Bounds> tensor;   ///< The sizes of tensors that make it print this.
  std::optional<Bounds> total;
  std::optional<Bounds> free;
  std::optional<Bounds> allocated;  ///< Without idle bytes of private pools.
  std::optional<Bounds> reserved;
  std::optional<Bounds> gap;            ///< Held and not live, private pools included.
  std::optional<Bounds> private_pools;  ///< Idle bytes in private pools.
  std::optional<Bounds> limit;
  std::optional<Bounds> process;            ///< This process, as NVML sees it.
  std::optional<Bounds> other_allocations;  ///< MPS: outside this allocator.
  std::vector<ProcessUse> processes;
};

struct Message {
  std::uint64_t line = 0;   ///< Of its first appearance.
  std::uint64_t count = 1;  ///< How often the same message came.
  Backend backend = Backend::kNone;
  Shape shape = Shape::kBare;
  std::string format;  ///< The widest version range that the text allows.
  std::optional<std::int32_t> device;
  std::string process;  ///< Of the log line's prefix.
  std::string time;     ///< Time stamp of the log line, as printed; empty if it has none.
  Figures figures;
  std::string text;      ///< Cleaned and joined, cut at a bounded length.
  std::size_t lead = 0;  ///< Bytes of it that stand on the line in front of the message.
  std::vector<std::string> unreadable;  ///< Figures that cannot be read as they are printed.
  bool cut_short = false;               ///< The text ends before its last figure.
};

}  // namespace fragscope::explain
