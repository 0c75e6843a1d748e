// SPDX-License-Identifier: Apache-2.0
// The short record of a failed allocation that can go into an issue.
#pragma once

#include "analyzer/explain/device_list.hpp"
#include "analyzer/explain/explainer.hpp"
#include "analyzer/stages/weights/model_weights.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace fragscope::report {

/// A model's weights, and how many devices share them.
struct Weights {
  stages::WeightBound bound;
  std::uint32_t devices = 1;
};

/// The record of the last failed allocation, as Markdown: where each number comes from, the whole
/// message, the device, the stage, who else uses the card, what is missing and what would decide.
/// `devices` go before those that the log itself lists. At most some 8 KB.
[[nodiscard]] std::string diagnostic_record(const explain::Explanation& explanation,
                                            const std::string& path,
                                            const explain::DeviceList& devices,
                                            const std::optional<Weights>& weights);

}  // namespace fragscope::report
