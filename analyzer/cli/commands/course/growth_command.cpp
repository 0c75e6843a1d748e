// SPDX-License-Identifier: Apache-2.0
// `fragscope growth`: whether memory grows over repeats of the same work, and what grows.
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/input/history_file.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/course/growth/growth.hpp"
#include "analyzer/report/course/growth_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::cli {
namespace {

struct GrowthArguments {
  std::vector<std::string> files;
  std::optional<std::int32_t> device;
  std::string marks;
  std::string period;
  bool json = false;
  bool redact = false;
  bool exit_code = false;
  std::string color = "auto";
};

int code_of(course::GrowthKind kind) {
  switch (kind) {
    case course::GrowthKind::kPlateau:
    case course::GrowthKind::kFalling:
      return kDone;
    case course::GrowthKind::kGrowth:
      return 10;
    case course::GrowthKind::kCacheGrowth:
      return 11;
    case course::GrowthKind::kUndecided:
      return 12;
    default:
      return 13;
  }
}

Result<course::Growth> show_growth(const GrowthArguments& arguments, const std::string& path) {
  const auto file = HistoryFile::open(path, arguments.device, Needs::kHistory);
  if (!file) return tl::unexpected<Error>(file.error());
  course::RepeatChoice choice;
  choice.name = arguments.marks;
  choice.by_period = !arguments.period.empty();
  course::Growth growth = course::find_growth((*file)->history(), choice);
  if (!choice.name.empty() && growth.repeats.all.empty()) {
    return failure(ErrorCode::kUsage,
                   fmt::format("--marks {}: the file has no mark of that name", choice.name));
  }
  const report::FrameText frames((*file)->recording(), arguments.redact);
  const std::string shown = arguments.redact ? "(masked)" : report::printable(path);
  const report::CourseInput input{shown, (*file)->recording(), (*file)->device()};
  if (arguments.json) {
    fmt::print("{}\n", report::growth_json(growth, input, frames, FRAGSCOPE_VERSION));
  } else {
    const report::Paint paint(wants_colour(arguments.color));
    fmt::print("{}", report::growth_text(growth, input, frames, paint));
  }
  return growth;
}

int run_growth(const GrowthArguments& arguments) {
  std::vector<course::Growth> runs;
  for (const std::string& path : arguments.files) {
    if (!runs.empty() && !arguments.json) fmt::print("\n");
    Result<course::Growth> run = show_growth(arguments, path);
    if (!run) {
      Error error = run.error();
      if (error.code != ErrorCode::kUsage || arguments.files.size() > 1) error.source = path;
      static_cast<void>(std::fflush(stdout));
      return complain(error);
    }
    runs.push_back(std::move(*run));
  }
  if (runs.size() > 1) {
    if (arguments.json) {
      fmt::print("{}\n", report::control_json(runs, FRAGSCOPE_VERSION));
    } else {
      fmt::print("{}", report::control_text(runs, report::Paint(wants_colour(arguments.color))));
    }
  }
  return printed(arguments.exit_code ? code_of(runs.back().kind) : kDone);
}

}  // namespace

void add_growth_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<GrowthArguments>();
  CLI::App* command = app.add_subcommand(
      "growth",
      "Whether memory grows over repeats of the same work: warm-up, plateau, growth of live "
      "allocations, or of the cache only");
  command
      ->add_option("FILE",
                   arguments->files,
                   "Traces, rings or snapshots with history; three of them are A, B and A again")
      ->check(standard_input_once())
      ->required();
  CLI::Option* marks = command->add_option(
      "--marks", arguments->marks, "Repeats are the marks or stages of this NAME, numbers aside");
  command
      ->add_option("--period",
                   arguments->period,
                   "auto: repeats are from one allocation to the next of a kind that comes evenly")
      ->check(CLI::IsMember({"auto"}))
      ->excludes(marks);
  command->add_option(
      "--device", arguments->device, "Ordinal of the device; needed where several are");
  command->add_flag("--json", arguments->json, "One JSON object for each file, and one for all");
  command->add_flag("--redact", arguments->redact, "Mask names and the lines of code");
  command->add_option("--color", arguments->color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->add_flag(
      "--exit-code",
      arguments->exit_code,
      "Exit by the last file: 0 plateau or falling, 10 growth of live allocations, 11 "
      "of the cache only, 12 undecided, 13 no or too few repeats");
  command->callback([arguments, &run] { run = [arguments] { return run_growth(*arguments); }; });
}

}  // namespace fragscope::cli
