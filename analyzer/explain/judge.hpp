// SPDX-License-Identifier: Apache-2.0
// What the figures of one message prove, and what they leave open. Every figure is an interval; a
// finding fires only where it holds for all values in it. The rules: docs/oom_messages.md. Pure.
#pragma once

#include "analyzer/explain/message/message.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::explain {

/// In the order of precedence: the first that fires is the kind, the others stand beside it.
enum class Kind : std::uint8_t {
  kInconsistent,
  kOversubscribed,
  kImpossible,
  kLimit,
  kExternal,
  kCapacity,
  kNotExplained,
  kPossibleFragmentation,
  kUndecidable,
  kNoNumbers,
  kNotAnOom,
};
[[nodiscard]] std::string_view to_string(Kind kind);

/// Which idle memory could have served a request that may have met fragmentation: the gap alone, or
/// only the gap and what the driver had free together.
enum class Basis : std::uint8_t { kNone, kGap, kGapAndFree };
[[nodiscard]] std::string_view to_string(Basis basis);

struct Finding {
  Kind kind = Kind::kNoNumbers;
  std::vector<Kind> also;
  Basis basis = Basis::kNone;
  bool certain = false;
  std::string text;                ///< One or two sentences with the numbers in them.
  std::vector<std::string> notes;  ///< Further observations.
  std::vector<std::string> next;   ///< What to record or ask to decide.
};

[[nodiscard]] Finding judge_message(const Message& message);

}  // namespace fragscope::explain
