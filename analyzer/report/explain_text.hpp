// SPDX-License-Identifier: Apache-2.0
// An explanation of a log as text for people, and the short diagnostic record for an issue.
#pragma once

#include "analyzer/explain/explainer.hpp"
#include "analyzer/report/terminal.hpp"
#include "analyzer/stages/weights/model_weights.hpp"

#include <map>
#include <string>

namespace fragscope::report {

/// A lower bound of a model's weights beside the cards that the log names.
[[nodiscard]] std::string weights_text(const stages::WeightBound& bound,
                                       std::uint32_t devices,
                                       const explain::Explanation& explanation,
                                       const Paint& paint);

/// UUIDs of devices by ordinal, as `nvidia-smi -L` lists them.
using DeviceUuids = std::map<std::int32_t, std::string>;

[[nodiscard]] std::string explain_text(const explain::Explanation& explanation,
                                       const std::string& path,
                                       const Paint& paint);

/// The record of the last failed allocation: where each number comes from, the whole message, the
/// device, the stage, who else uses the card, what is missing and what would decide. Bounded.
[[nodiscard]] std::string diagnostic_record(const explain::Explanation& explanation,
                                            const std::string& path,
                                            const DeviceUuids& uuids);

}  // namespace fragscope::report
