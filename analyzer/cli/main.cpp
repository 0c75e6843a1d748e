// SPDX-License-Identifier: Apache-2.0
// The command line. Each command adds itself; this file ties them together, turns every error into
// one line on standard error, and names the version.
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/report/frame_text.hpp"
#include "kernels/cuda_devices.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

// A mapped file that shrinks while it is read raises SIGBUS; that is bad input, not a crash.
void on_bus_error(int) {
  constexpr char kLine[] = "fragscope: the input shrank or became unreadable while it was read\n";
  static_cast<void>(!::write(STDERR_FILENO, kLine, sizeof kLine - 1));
  ::_exit(1);
}

std::string version_text() {
  std::string text =
      fmt::format("fragscope {} ({})", FRAGSCOPE_VERSION, fragscope::kernels::cuda_build());
  return text;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

bool is_command(const CLI::App& app, std::string_view word) {
  const std::vector<std::string> names = command_names(app);
  return std::ranges::find(names, word) != names.end();
}

int run(int argc, char** argv) {
  CLI::App app(
      "Why a CUDA allocation failed: could the free memory have served it, and if not, what "
      "stood in the way?",
      "fragscope");
  app.set_version_flag("--version", version_text);
  app.require_subcommand(0, 1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("fragscope: {} (see fragscope --help)\n",
                       fragscope::report::printable(error.what()));
  });
  std::function<int()> chosen;
  fragscope::cli::add_analyze_command(app, chosen);
  fragscope::cli::add_explain_command(app, chosen);
  fragscope::cli::add_devices_command(app, chosen);
  fragscope::cli::add_record_command(app, chosen);
  fragscope::cli::add_replay_command(app, chosen);
  fragscope::cli::add_fit_command(app, chosen);
  fragscope::cli::add_diff_command(app, chosen);
  fragscope::cli::add_growth_command(app, chosen);
  fragscope::cli::add_stages_command(app, chosen);
  fragscope::cli::add_timeline_command(app, chosen);
  fragscope::cli::add_run_command(app, chosen);
  fragscope::cli::add_rings_command(app, chosen);
  fragscope::cli::add_dump_command(app, chosen);
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  if (words.size() > 1 && words[1][0] != '-' && !is_command(app, words[1])) {
    fmt::print(stderr,
               "fragscope: {}: there is no such command; there are {} (see fragscope --help)\n",
               fragscope::report::printable(words[1]),
               fmt::join(command_names(app), ", "));
    return 1;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  if (!chosen) {
    fmt::print(
        stderr,
        "fragscope: expected a command, such as analyze or explain (see fragscope --help)\n");
    return 1;
  }
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGBUS, on_bus_error);
  // A reader that stops early (head, less) is no failure worth a signal.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("fragscope: not enough memory for this input\n", stderr);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe) return 0;  // As in `printed`.
    fmt::print(stderr, "fragscope: {}\n", error.what());
  } catch (const std::exception& error) {
    fmt::print(stderr, "fragscope: {}\n", error.what());
  }
  return 1;
}
