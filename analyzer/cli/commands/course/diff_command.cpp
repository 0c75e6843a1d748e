// SPDX-License-Identifier: Apache-2.0
// `fragscope diff`: two recordings side by side.
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/input/history_file.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/difference/difference.hpp"
#include "analyzer/report/course/diff_report.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace fragscope::cli {
namespace {

using difference::Likeness;
using difference::SettingsLikeness;

struct DiffArguments {
  std::string first;
  std::string second;
  std::optional<std::int32_t> device;
  std::string at;
  bool json = false;
  bool redact = false;
  bool exit_code = false;
  std::string color = "auto";
};

Result<std::unique_ptr<HistoryFile>> open(const DiffArguments& arguments, const std::string& path) {
  auto file = HistoryFile::open(path, arguments.device, Needs::kState);
  if (file) return file;
  Error error = file.error();
  error.source = path;
  return tl::unexpected<Error>(std::move(error));
}

difference::ProgramLikeness compare_programs(const HistoryFile& first, const HistoryFile& second) {
  difference::ProgramLikeness unknown;
  const auto requests_of = [](const HistoryFile& file) {
    return file.program().map(
        [](const whatif::Program& program) { return difference::requests_of(program); });
  };
  const Result<difference::Requests> ours = requests_of(first);
  if (!ours) {
    unknown.basis = "A: " + ours.error().message;
    return unknown;
  }
  const Result<difference::Requests> theirs = requests_of(second);
  if (!theirs) {
    unknown.basis = "B: " + theirs.error().message;
    return unknown;
  }
  return difference::compare(*ours, *theirs);
}

int code_of(const difference::Difference& found) {
  const std::string_view relation = report::relation_word(found);
  if (relation == "same-program-same-settings") return kDone;
  if (relation == "same-program-other-settings") return 10;
  if (relation == "other-program-same-settings") return 11;
  return relation == "other-program-other-settings" ? 12 : 13;
}

std::optional<difference::Moment> moment_of(const std::string& at) {
  if (at == "oom") return difference::Moment::kFailure;
  if (at == "peak") return difference::Moment::kPeak;
  if (at == "end") return difference::Moment::kEnd;
  return std::nullopt;
}

difference::Side side_of(const HistoryFile& file, const report::FrameText& places) {
  return {file.recording(), file.history(), [&places](model::StackId stack) {
            return places.place(stack);
          }};
}

Result<int> show_difference(const DiffArguments& arguments) {
  const auto first = open(arguments, arguments.first);
  if (!first) return tl::unexpected<Error>(first.error());
  const auto second = open(arguments, arguments.second);
  if (!second) return tl::unexpected<Error>(second.error());
  const report::FrameText first_places((*first)->recording(), false);
  const report::FrameText second_places((*second)->recording(), false);
  Result<difference::Difference> found = difference::find_difference(
      side_of(**first, first_places), side_of(**second, second_places), moment_of(arguments.at));
  if (!found) return tl::unexpected<Error>(found.error());
  found->program = compare_programs(**first, **second);

  const auto shown = [&arguments](const std::string& path, const char* masked) {
    return arguments.redact ? std::string(masked) : report::printable(path);
  };
  const report::FrameText first_frames((*first)->recording(), arguments.redact);
  const report::FrameText second_frames((*second)->recording(), first_frames);
  const report::DiffInput input{
      {shown(arguments.first, "(A)"), (*first)->recording(), (*first)->device()},
      {shown(arguments.second, "(B)"), (*second)->recording(), (*second)->device()},
      first_frames,
      second_frames};
  if (arguments.json) {
    fmt::print("{}\n", report::diff_json(*found, input, FRAGSCOPE_VERSION));
  } else {
    const report::Paint paint(wants_colour(arguments.color));
    fmt::print("{}", report::diff_text(*found, input, paint));
  }
  return arguments.exit_code ? code_of(*found) : kDone;
}

}  // namespace

void add_diff_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<DiffArguments>();
  CLI::App* command = app.add_subcommand(
      "diff",
      "Two recordings side by side: layers, the gap, who holds memory, segments, settings; and "
      "whether it is the same program, or the same settings");
  const CLI::Validator input = standard_input_once();
  command->add_option("A", arguments->first, "A trace, a ring or a snapshot")
      ->check(input)
      ->required();
  command->add_option("B", arguments->second, "Another one")->check(input)->required();
  command->add_option("--device", arguments->device, "Ordinal of the device in both");
  command
      ->add_option(
          "--at", arguments->at, "oom, peak or end; else the first of these that both of them have")
      ->check(CLI::IsMember({"oom", "peak", "end"}));
  command->add_flag("--json", arguments->json, "One JSON object");
  command->add_flag("--redact", arguments->redact, "Mask names and the lines of code");
  command->add_option("--color", arguments->color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->add_flag("--exit-code",
                    arguments->exit_code,
                    "Exit by the result: 0 same program and settings, 10 other settings, 11 other "
                    "program, 12 both, 13 cannot be told");
  command->callback(
      [arguments, &run] { run = [arguments] { return finish(show_difference(*arguments), {}); }; });
}

}  // namespace fragscope::cli
