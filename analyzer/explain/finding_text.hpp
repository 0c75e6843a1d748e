// SPDX-License-Identifier: Apache-2.0
// A finding in words: sentences with the numbers in them, observations that do not decide, and what
// to record so that the next time decides. Pure.
#pragma once

#include "analyzer/explain/judge.hpp"
#include "analyzer/explain/message/message.hpp"

#include <optional>
#include <string>
#include <vector>

namespace fragscope::explain {

/// X = total - free - reserved: memory outside this allocator. Empty if a figure is missing.
[[nodiscard]] std::optional<Bounds> outside_bytes(const Figures& figures);

/// What the driver may have had free. Where that is not printed, anything up to the rest of the
/// card.
[[nodiscard]] Bounds possible_free(const Figures& figures);

/// What is held and asked for together, where it is within rounding of the printed limit.
[[nodiscard]] std::optional<Bounds> undecided_limit(const Figures& figures);

[[nodiscard]] std::string finding_text(const Message& message, const Finding& finding);
[[nodiscard]] std::vector<std::string> finding_notes(const Message& message,
                                                     const Finding& finding);
[[nodiscard]] std::vector<std::string> next_steps(const Message& message, const Finding& finding);

/// "4.94 GiB", or "4.93 to 4.95 GiB" where the two ends print differently.
[[nodiscard]] std::string shown(const Bounds& bounds);

}  // namespace fragscope::explain
