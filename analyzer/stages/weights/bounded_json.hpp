// SPDX-License-Identifier: Apache-2.0
// JSON from files that anybody may have written.
#pragma once

#include <nlohmann/json.hpp>

#include <string_view>

namespace fragscope::stages {

/// The value of a JSON text; a discarded one (`is_discarded()`) if it is malformed or its brackets
/// are nested more than `max_depth` deep. The parser would follow any number of them, and its own
/// way of stopping (a callback) costs time quadratic in the number of keys.
[[nodiscard]] nlohmann::json parse_bounded_json(std::string_view text, int max_depth);

}  // namespace fragscope::stages
