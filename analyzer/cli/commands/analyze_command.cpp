// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/analysis.hpp"
#include "analyzer/cli/analyzed_file.hpp"
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/input/request_options.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/report/json_report.hpp"
#include "analyzer/report/text_report.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::cli {
namespace {

using analysis::Moment;

/// The options as typed; turned into `analysis::Options` before any file is read.
struct AnalyzeArguments {
  std::vector<std::string> files;
  RequestArguments request;
  std::optional<std::int32_t> device;
  std::string at;
  std::string color = "auto";
  bool json = false;
  bool redact = false;
  bool exit_code = false;
};

constexpr int kFirstVerdictCode = 10;

Result<Moment> parse_moment(const std::string& text) {
  if (text == "end") return Moment{Moment::Kind::kEnd, {}};
  if (text == "peak") return Moment{Moment::Kind::kPeak, {}};
  if (text == "oom") return Moment{Moment::Kind::kOom, {}};
  const bool is_oom = text.starts_with("oom:");
  const auto number = parse_number<std::int64_t>(std::string_view(text).substr(is_oom ? 4 : 0));
  if (number) return Moment{is_oom ? Moment::Kind::kOom : Moment::Kind::kEvent, number};
  return tl::unexpected<Error>(
      wrong_option("--at", text, "oom, oom:N, peak, end or an event number"));
}

Result<analysis::Options> parse_arguments(const AnalyzeArguments& arguments) {
  Result<analysis::Options> options = parse_request(arguments.request);
  if (!options) return options;
  options->device = arguments.device;
  if (!arguments.at.empty()) {
    const Result<Moment> at = parse_moment(arguments.at);
    if (!at) return tl::unexpected<Error>(at.error());
    options->at = *at;
  }
  if (arguments.redact && !options->log_name.empty()) options->log_name = "(masked log)";
  if (!options->request_bytes && options->at) {
    return tl::unexpected<Error>(wrong_option("--at", arguments.at, "--request SIZE beside it"));
  }
  return options;
}

/// None: nothing failed.
std::optional<verdict::VerdictKind> last_verdict(const analysis::Analysis& analyzed) {
  if (!analyzed.failures.empty()) return analyzed.failures.back().judgement.verdict.kind;
  if (analyzed.unjudged_failures.count > 0) return verdict::VerdictKind::kUnknown;
  return std::nullopt;
}

/// Analyses one file and prints it; the exit code by the last verdict, or an error.
Result<int> analyze_file(const std::string& path,
                         const AnalyzeArguments& arguments,
                         const analysis::Options& options) {
  const auto with_source = [&path](Error error) {
    error.source = path;
    return tl::unexpected<Error>(std::move(error));
  };
  const Result<Analyzed> made = analyze_path(path, options);
  if (!made) return with_source(made.error());
  const analysis::Analysis* const analyzed = &made->analysis;

  const report::FrameText frames(made->recording, arguments.redact);
  const std::string shown_path = arguments.redact ? "(masked)" : path;
  if (arguments.json) {
    fmt::print("{}\n", report::json_report(*analyzed, frames, {shown_path, FRAGSCOPE_VERSION}));
  } else {
    const report::Paint paint(wants_colour(arguments.color));
    fmt::print("{}", report::text_report(*analyzed, frames, shown_path, paint));
  }
  const auto verdict = last_verdict(*analyzed);
  return arguments.exit_code && verdict ? kFirstVerdictCode + static_cast<int>(*verdict) : kDone;
}

int run_analyze(const AnalyzeArguments& arguments) {
  const Result<analysis::Options> options = parse_arguments(arguments);
  if (!options) return complain(options.error());
  int code = kDone;
  for (std::size_t i = 0; i < arguments.files.size(); ++i) {
    if (i > 0 && !arguments.json) fmt::print("\n");
    const Result<int> done = analyze_file(arguments.files[i], arguments, *options);
    // One bad file does not hide the others' answers, but it decides the exit code.
    if (!done) {
      code = complain(done.error());
    } else if (code != kFailed) {
      code = *done;
    }
  }
  return printed(code);
}

}  // namespace

void add_analyze_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<AnalyzeArguments>();
  CLI::App* command = app.add_subcommand(
      "analyze",
      "Say why a request failed, from a PyTorch memory snapshot (.pickle, .gz, .zst), a trace or a "
      "ring");
  command->add_option("FILE", arguments->files, "Snapshots, traces, rings; - is standard input")
      ->check(standard_input_once())
      ->required();
  add_request_options(*command, arguments->request);
  command->add_option(
      "--at",
      arguments->at,
      "When to ask: oom (the last failure), oom:N, peak, end (default) or before an "
      "event number");
  command->add_option(
      "--device", arguments->device, "Ordinal of the device; needed where several are");
  command->add_flag("--json", arguments->json, "One JSON object a file, one line each");
  command->add_flag("--redact", arguments->redact, "Mask paths, file names and function names");
  command->add_option("--color", arguments->color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->add_flag(
      "--exit-code",
      arguments->exit_code,
      "Exit by the last verdict: 10 servable, 11 not-explained, 12 releasable, 13 limit, "
      "14 stranded, 15 fragmented, 16 scattered, 17 external, 18 capacity, 19 "
      "impossible, 20 unknown (also a failure that the file does not show); 0 without one");
  command->callback([arguments, &run] { run = [arguments] { return run_analyze(*arguments); }; });
}

}  // namespace fragscope::cli
