// SPDX-License-Identifier: Apache-2.0
// The commands. Each adds itself to `app`; after parsing, `run` is set if it was chosen, and gives
// the exit code.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace fragscope::cli {

/// For options that name files: standard input, "-", can be read once. One for all options of a
/// command.
[[nodiscard]] inline CLI::Validator standard_input_once() {
  return {[was_named = std::make_shared<bool>(false)](const std::string& file) {
            const bool is_again = file == "-" && std::exchange(*was_named, true);
            return std::string(is_again ? "standard input can be read once, expected a file" : "");
          },
          ""};
}

/// A recording, a verdict.
void add_analyze_command(CLI::App& app, std::function<int()>& run);
/// What is free on each device, and who uses what.
void add_devices_command(CLI::App& app, std::function<int()>& run);
/// The records of a trace as lines of text.
void add_dump_command(CLI::App& app, std::function<int()>& run);
/// Out-of-memory messages found in logs, and what their numbers prove.
void add_explain_command(CLI::App& app, std::function<int()>& run);
/// A ring becomes a file.
void add_record_command(CLI::App& app, std::function<int()>& run);
/// The smallest device for recorded requests.
void add_fit_command(CLI::App& app, std::function<int()>& run);
/// Recorded requests, run again.
void add_replay_command(CLI::App& app, std::function<int()>& run);
/// A command with recording on.
void add_run_command(CLI::App& app, std::function<int()>& run);
/// Two recordings side by side.
void add_diff_command(CLI::App& app, std::function<int()>& run);
/// Memory over repeats of the same work.
void add_growth_command(CLI::App& app, std::function<int()>& run);
/// Memory by stage of a program.
void add_stages_command(CLI::App& app, std::function<int()>& run);
/// The largest request that would have been served, over a recording.
void add_timeline_command(CLI::App& app, std::function<int()>& run);
/// The rings on this machine.
void add_rings_command(CLI::App& app, std::function<int()>& run);

}  // namespace fragscope::cli
