// SPDX-License-Identifier: Apache-2.0
// What every command does the same way: exit codes, the one line of an error, whether to use
// colour.
#pragma once

#include "trace/result.hpp"

#include <string>

namespace fragscope::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;

/// Prints the error as one line on standard error; gives the exit code.
int complain(const Error& error);

/// `choice`: auto, always or never. Auto follows the terminal and NO_COLOR.
[[nodiscard]] bool wants_colour(const std::string& choice);

}  // namespace fragscope::cli
