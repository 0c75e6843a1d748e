// SPDX-License-Identifier: Apache-2.0
// `fragscope stages`: peak, live and reserved memory by stage of a program.
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/input/history_file.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/course/stage_memory.hpp"
#include "analyzer/report/course/stages_report.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace fragscope::cli {
namespace {

constexpr int kFailedInStage = 10;
constexpr int kNoStages = 11;

struct StagesArguments {
  std::string file;
  std::optional<std::int32_t> device;
  bool json = false;
  bool redact = false;
  bool exit_code = false;
  std::string color = "auto";
};

Result<int> show_stages(const StagesArguments& arguments) {
  const auto file = HistoryFile::open(arguments.file, arguments.device, Needs::kHistory);
  if (!file) return tl::unexpected<Error>(file.error());
  const course::StageMemory memory = course::find_stages((*file)->history());
  const report::FrameText frames((*file)->recording(), arguments.redact);
  const std::string path = arguments.redact ? "(masked)" : report::printable(arguments.file);
  const report::CourseInput input{path, (*file)->recording(), (*file)->device()};
  if (arguments.json) {
    fmt::print("{}\n", report::stages_json(memory, input, frames, FRAGSCOPE_VERSION));
  } else {
    const report::Paint paint(wants_colour(arguments.color));
    fmt::print("{}", report::stages_text(memory, input, frames, paint));
  }
  if (!arguments.exit_code) return kDone;
  const std::uint64_t unjudged = input.recording.unjudged_failures.count;
  if (memory.failure_count > 0 || unjudged > 0) return kFailedInStage;
  return memory.has_stages ? kDone : kNoStages;
}

}  // namespace

void add_stages_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<StagesArguments>();
  CLI::App* command = app.add_subcommand(
      "stages",
      "Memory by stage of a program: what each held at most, for a while, and left behind");
  command
      ->add_option("FILE",
                   arguments->file,
                   "A trace, a ring or a snapshot with history; - is standard input")
      ->required();
  command->add_option(
      "--device", arguments->device, "Ordinal of the device; needed where several are");
  command->add_flag("--json", arguments->json, "One JSON object");
  command->add_flag("--redact", arguments->redact, "Mask names and the lines of code");
  command->add_option("--color", arguments->color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->add_flag("--exit-code",
                    arguments->exit_code,
                    "Exit by the result: 10 a request failed, 11 the file has no stages");
  command->callback([arguments, &run] {
    run = [arguments] { return finish(show_stages(*arguments), arguments->file); };
  });
}

}  // namespace fragscope::cli
