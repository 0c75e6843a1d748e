// SPDX-License-Identifier: Apache-2.0
// `fragscope explain`: out-of-memory messages found in logs, and what their numbers prove.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace fragscope::cli {

/// Adds the command to `app`. After parsing, `run` is set if it was chosen; it returns the exit
/// code.
void add_explain_command(CLI::App& app, std::function<int()>& run);

}  // namespace fragscope::cli
