// SPDX-License-Identifier: Apache-2.0
// Names of marks that belong together: "request 1" and "request 2" are the same but for the number.
// Pure.
#pragma once

#include "analyzer/stages/stage.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace fragscope::course {

/// Each run of digits as one "#".
[[nodiscard]] std::string without_numbers(std::string_view name);

/// "Checkpoint reading" and "checkpoint-reading" are the stage of that name.
[[nodiscard]] std::optional<stages::Stage> known_stage(std::string_view name);

}  // namespace fragscope::course
