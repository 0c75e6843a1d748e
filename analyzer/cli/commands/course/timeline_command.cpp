// SPDX-License-Identifier: Apache-2.0
// `fragscope timeline`: the largest request that would have been served, over a recording.
#include "analyzer/analysis/timeline_analysis.hpp"
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/input/history_file.hpp"
#include "analyzer/cli/input/request_options.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/servability/timeline_report.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::cli {
namespace {

constexpr int kBecameImpossible = 10;
constexpr int kNeverPossible = 11;
constexpr std::size_t kMostColumns = 4096;
constexpr std::size_t kMostSizes = 256;
constexpr std::string_view kSizesExpected = "sizes with commas between them, as 64MiB,1.5GiB";

struct TimelineArguments {
  std::string file;
  RequestArguments request;
  std::optional<std::int32_t> device;
  std::size_t columns = 60;
  std::vector<std::string> sizes;
  std::string scan_on = "auto";
  bool json = false;
  bool redact = false;
  bool exit_code = false;
  std::string color = "auto";
};

int code_of(const servability::Timeline& timeline) {
  if (!timeline.asked || timeline.asked->last != servability::Server::kNobody) return kDone;
  const bool was_possible =
      timeline.asked->first != servability::Server::kNobody || timeline.asked->turn_count > 0;
  return was_possible ? kBecameImpossible : kNeverPossible;
}

kernels::Device scan_device(std::string_view name) {
  if (name == "cpu") return kernels::Device::kCpu;
  return name == "cuda" ? kernels::Device::kCuda : kernels::Device::kAuto;
}

Result<analysis::TimelineOptions> timeline_options(const TimelineArguments& arguments) {
  analysis::TimelineOptions wanted;
  wanted.column_count = arguments.columns;
  wanted.scan_on = scan_device(arguments.scan_on);
  for (const std::string& text : arguments.sizes) {
    const Result<std::uint64_t> size = model::parse_bytes(text);
    if (!size) return tl::unexpected<Error>(wrong_option("--sizes", text, kSizesExpected));
    wanted.sizes.push_back(*size);
  }
  return wanted;
}

Result<int> show_timeline(const TimelineArguments& arguments) {
  Result<analysis::Options> options = parse_request(arguments.request);
  if (!options) return tl::unexpected<Error>(options.error());
  const Result<analysis::TimelineOptions> wanted = timeline_options(arguments);
  if (!wanted) return tl::unexpected<Error>(wanted.error());
  const auto file = HistoryFile::open(arguments.file, arguments.device, Needs::kHistory);
  if (!file) return tl::unexpected<Error>(file.error());
  const model::Recording& recording = (*file)->recording();
  const auto made =
      analysis::analyze_timeline(recording, (*file)->history(), std::move(*options), *wanted);
  if (!made) return tl::unexpected<Error>(made.error());
  const report::FrameText frames(recording, arguments.redact);
  const std::string path = arguments.redact ? "(masked)" : report::printable(arguments.file);
  const report::CourseInput input{path, recording, (*file)->device()};
  if (arguments.json) {
    fmt::print("{}\n", report::timeline_json(*made, input, frames, FRAGSCOPE_VERSION));
  } else {
    const report::Paint paint(wants_colour(arguments.color));
    fmt::print("{}", report::timeline_text(*made, input, frames, paint));
  }
  return arguments.exit_code ? code_of(made->timeline) : kDone;
}

}  // namespace

void add_timeline_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<TimelineArguments>();
  CLI::App* command = app.add_subcommand(
      "timeline",
      "The largest request that would have been served, over a recording, and when a request "
      "became impossible");
  command
      ->add_option("FILE",
                   arguments->file,
                   "A trace, a ring or a snapshot with history; - is standard input")
      ->required();
  add_request_options(*command, arguments->request);
  command->add_option(
      "--device", arguments->device, "Ordinal of the device; needed where several are");
  command->add_option("--columns", arguments->columns, "Into how many to cut the events (60)")
      ->check(CLI::Range(std::size_t{1}, kMostColumns));
  command
      ->add_option("--sizes",
                   arguments->sizes,
                   "SIZE,SIZE,...: what would have served requests of these sizes at each column "
                   "(default: an eighth of the request to four times its size)")
      ->delimiter(',')
      ->expected(1, kMostSizes);
  command
      ->add_option("--scan-on",
                   arguments->scan_on,
                   "Where the scan over all sizes runs: auto (whichever should be done first), cpu "
                   "or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  command->add_flag("--json", arguments->json, "One JSON object");
  command->add_flag("--redact", arguments->redact, "Mask names and the lines of code");
  command->add_option("--color", arguments->color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->add_flag("--exit-code",
                    arguments->exit_code,
                    "Exit by the answer at the end: 10 it became impossible, 11 it never was "
                    "possible");
  command->callback([arguments, &run] {
    run = [arguments] { return finish(show_timeline(*arguments), arguments->file); };
  });
}

}  // namespace fragscope::cli
