// SPDX-License-Identifier: Apache-2.0
// `fragscope analyze`: options in, verdict out.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace fragscope::cli {

/// Adds the command to `app`. After parsing, `run` is set if it was chosen; it returns the exit
/// code.
void add_analyze_command(CLI::App& app, std::function<int()>& run);

}  // namespace fragscope::cli
