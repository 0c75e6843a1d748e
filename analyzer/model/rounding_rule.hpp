// SPDX-License-Identifier: Apache-2.0
// How the writer's allocator rounded requests to blocks. A trace gives requested sizes only, so the
// rule is checked against the blocks that are live at the end before any earlier size is derived
// from it; a writer whose rule is unknown gets bounds, not guesses.
#pragma once

#include "analyzer/recording/recording.hpp"

#include <cstdint>
#include <string_view>

namespace fragscope::model {

enum class RoundingRule : std::uint8_t {
  kCuda,      ///< 512 bytes, with the roundup_power2_divisions of the settings.
  kPadded32,  ///< 512 * ceil((n + 32) / 512), as Ascend's fork rounds.
  kUnknown,   ///< Neither fits the blocks; sizes in the past are bounds.
  kUntested,  ///< No live block with a requested size to test against: kCuda is assumed.
};

/// The rule as it is printed: what a request of n bytes gets.
[[nodiscard]] std::string_view to_string(RoundingRule rule);

/// The rule that fits every live block of class small (whose size is exactly the rounded request).
[[nodiscard]] RoundingRule find_rounding_rule(const Recording& recording);

/// A size known to lie in [bytes, bytes + slack_bytes].
struct BoundedSize {
  std::uint64_t bytes = 0;
  std::uint32_t slack_bytes = 0;
};

/// The block size behind a request under `rule`.
[[nodiscard]] BoundedSize rounded_size(std::uint64_t requested_bytes,
                                       RoundingRule rule,
                                       const policy::SizeRules& rules);

}  // namespace fragscope::model
