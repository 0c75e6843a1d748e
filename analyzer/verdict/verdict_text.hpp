// SPDX-License-Identifier: Apache-2.0
// A judgement in one or two plain sentences with the numbers in them.
#pragma once

#include "analyzer/verdict/ladder.hpp"

#include <string>

namespace fragscope::verdict {

[[nodiscard]] std::string verdict_text(const Question& question,
                                       const Supply& supply,
                                       const DeviceFacts& facts,
                                       const Judgement& judgement);

/// How much is lacking, with "at least" or "at most" in front where it is a bound.
[[nodiscard]] std::string shortage_text(const Verdict& verdict);

/// "device free" for "device_free", ...: a fact's name in a sentence.
[[nodiscard]] std::string fact_text(const MissingFact& fact);

}  // namespace fragscope::verdict
