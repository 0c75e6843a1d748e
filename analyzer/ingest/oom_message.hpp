// SPDX-License-Identifier: Apache-2.0
// Facts out of a log: PyTorch's out-of-memory messages (2.1 and later) and the allocator's exact
// failure lines (expandable mapping, 2.13's "memory allocation failed"). Printed figures are kept
// as the interval their rounding allows. Lines may be wrapped; other text is skipped.
#pragma once

#include "analyzer/model/heap_state.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::ingest {

/// What one message says. All figures are of one device at one moment.
struct OomMessage {
  std::int32_t device = 0;
  std::uint64_t line = 0;                ///< In the log, from 1.
  std::optional<model::Bounds> request;  ///< "Tried to allocate": the device allocation.
  model::Bounds free;
  model::Bounds total;
  std::optional<model::Bounds> limit;    ///< "allowed"
  std::optional<model::Bounds> process;  ///< "this process has ... in use"
};

/// Every message of these kinds in `log`, in order. Cost: one pass over the text.
[[nodiscard]] std::vector<OomMessage> find_oom_messages(std::string_view log);

}  // namespace fragscope::ingest
