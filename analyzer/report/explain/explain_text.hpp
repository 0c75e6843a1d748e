// SPDX-License-Identifier: Apache-2.0
// An explanation of a log as text for people.
#pragma once

#include "analyzer/explain/explainer.hpp"
#include "analyzer/report/terminal.hpp"
#include "analyzer/stages/weights/model_weights.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::report {

/// A lower bound of a model's weights beside the cards that the log names.
[[nodiscard]] std::string weights_text(const stages::WeightBound& bound,
                                       std::uint32_t devices,
                                       const explain::Explanation& explanation,
                                       const Paint& paint);

/// A sentence for each card that the log names: whether the bound exceeds it.
[[nodiscard]] std::vector<std::string> cards_text(const stages::WeightBound& bound,
                                                  std::uint32_t devices,
                                                  const explain::Explanation& explanation);

[[nodiscard]] std::string explain_text(const explain::Explanation& explanation,
                                       const std::string& path,
                                       const Paint& paint);

}  // namespace fragscope::report
