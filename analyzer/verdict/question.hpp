// SPDX-License-Identifier: Apache-2.0
// What is asked of the ladder: a request (one that failed, or one the user names), and the facts
// about the device that no list of blocks can show. Plain data.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/recording/recording.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace fragscope::verdict {

using model::Bounds;
using policy::kUnlimited;

/// A number about the device and where it comes from. A figure out of a log is known only as far
/// as it was printed, so it has bounds too.
struct Fact {
  Bounds bytes{0, kUnlimited};
  std::string source;  ///< Empty: not known.
  [[nodiscard]] bool known() const { return !source.empty(); }
};

/// Facts about the request's device at the moment of the request.
struct DeviceFacts {
  Fact free;     ///< F: what the driver has free, all processes counted.
  Fact total;    ///< T: what the card has.
  Fact limit;    ///< L: what this process may hold. Unknown is taken as "none is set".
  Fact context;  ///< Measured size of this process's CUDA context and libraries.
};

/// A request at a moment.
struct Question {
  std::int32_t device = 0;
  bool recorded = false;  ///< It failed in the recording; otherwise the user asks.
  model::EventIndex event = model::kBeforeFirst;
  std::int64_t time_us = model::kNoTime;
  std::uint64_t size_bytes = 0;  ///< S: the rounded size.
  std::optional<std::uint64_t> asked_bytes;
  std::int64_t stream = 0;
  model::PoolIndex pool = model::kDefaultPool;
  model::StackId stack = model::kNoStack;

  [[nodiscard]] policy::SizeClass size_class() const { return policy::size_class(size_bytes); }
};

}  // namespace fragscope::verdict
