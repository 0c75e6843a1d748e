// SPDX-License-Identifier: Apache-2.0
// Memory of a card that this allocator does not hold: CUDA contexts, libraries, other processes.
// Which amount of it says something is decided alike for a message in a log (`explain/judge`) and
// for a recording (`verdict/ladder`). How much there is, each works out from its own figures.
#pragma once

#include "allocator/policy/size_rules.hpp"

#include <algorithm>
#include <cstdint>

namespace fragscope::model {

/// Memory of a process's CUDA context and libraries where it was not measured: 0.6 GiB, the middle
/// of the usual 0.3 to 1 GiB. Of twelve field messages that print the process's use, eight put it
/// 0.2 to 1.2 GiB above what the allocator holds; the others, up to 3.9 GiB above, count as more
/// than a context.
inline constexpr std::uint64_t kAssumedContextBytes = 644245094;

/// From here on memory outside is more than one context explains: above all eight of those.
inline constexpr std::uint64_t kOutsideCountsBytes = policy::kGiB + policy::kGiB / 2;

/// The same for a card of `total_bytes`. On a small card a quarter of it counts as well: there is
/// no room for much more.
[[nodiscard]] constexpr std::uint64_t outside_counts_from(std::uint64_t total_bytes) {
  return std::min(kOutsideCountsBytes, total_bytes / 4);
}

}  // namespace fragscope::model
