// SPDX-License-Identifier: Apache-2.0
// An explanation of a log as one JSON object, with the fields of the contract (docs/json.md).
#pragma once

#include "analyzer/explain/explainer.hpp"
#include "analyzer/report/explain/diagnostic_record.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace fragscope::report {

/// One line of JSON, without a line break.
[[nodiscard]] std::string explain_json(const explain::Explanation& explanation,
                                       std::string_view tool_version,
                                       const std::string& path,
                                       const std::optional<Weights>& weights);

}  // namespace fragscope::report
