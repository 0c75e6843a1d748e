// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/analysis.hpp"
#include "analyzer/cli/analyzed_file.hpp"
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/explain/collector/message_collector.hpp"
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/json_report.hpp"
#include "analyzer/report/text_report.hpp"

#include <fmt/format.h>

#include <charconv>
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
  std::string request;
  std::optional<std::int32_t> device;
  std::optional<std::int64_t> stream;
  std::string pool;
  std::string at;
  std::string device_total;
  std::string device_free;
  std::string limit;
  std::string log;
  std::string color = "auto";
  bool json = false;
  bool redact = false;
  bool exit_code = false;
};

constexpr int kFirstVerdictCode = 10;

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Error wrong_option(std::string_view option, std::string_view value, std::string_view expected) {
  Error error;
  error.code = ErrorCode::kUsage;
  error.message = fmt::format("{} {}: expected {}", option, value, expected);
  return error;
}

Result<std::optional<std::uint64_t>> size_option(std::string_view option, const std::string& text) {
  if (text.empty()) return std::optional<std::uint64_t>{};
  const Result<std::uint64_t> size = model::parse_bytes(text);
  if (size) return std::optional(*size);
  Error error = size.error();
  error.message = fmt::format("{}: {}", option, error.message);
  return tl::unexpected<Error>(std::move(error));
}

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

Result<model::PoolId> parse_pool(const std::string& text) {
  const auto comma = text.find(',');
  const auto first = parse_number<std::uint64_t>(std::string_view(text).substr(0, comma));
  const auto second = comma == std::string::npos
                          ? std::nullopt
                          : parse_number<std::uint64_t>(std::string_view(text).substr(comma + 1));
  if (first && second) return model::PoolId{*first, *second};
  return tl::unexpected<Error>(wrong_option("--pool", text, "two numbers, as 0,0"));
}

/// A number without a unit, up to 1, is a fraction of the device; anything else is a size.
Result<void> parse_limit(const std::string& text, analysis::Options& options) {
  if (text.empty()) return {};
  constexpr std::string_view kExpected = "a size, or a fraction above 0 and up to 1";
  const auto number = parse_number<double>(text);
  if (number && *number > 0 && *number <= 1) {
    options.limit_fraction = number;
    return {};
  }
  const bool is_whole = number && text.find_first_not_of("0123456789") == std::string::npos;
  if (number && (!is_whole || *number == 0)) {
    return tl::unexpected<Error>(wrong_option("--limit", text, kExpected));
  }
  return size_option("--limit", text).map([&options](std::optional<std::uint64_t> size) {
    options.limit_bytes = size;
  });
}

/// Facts that cannot be true together are a slip of the hand, not evidence.
Result<void> check_facts(const analysis::Options& options) {
  if (options.device_free_bytes && options.device_total_bytes &&
      *options.device_free_bytes > *options.device_total_bytes) {
    return tl::unexpected<Error>(wrong_option(
        "--device-free", model::show_bytes(*options.device_free_bytes), "at most --device-total"));
  }
  return {};
}

Result<void> read_log(const std::string& path, analysis::Options& options) {
  if (path.empty()) return {};
  Result<std::vector<explain::Message>> messages = explain::read_messages(path);
  if (!messages) {
    Error error = messages.error();
    error.source = path;
    return tl::unexpected<Error>(std::move(error));
  }
  options.log_name = path;
  options.messages = std::move(*messages);
  return {};
}

Result<analysis::Options> parse_arguments(const AnalyzeArguments& arguments) {
  analysis::Options options;
  options.device = arguments.device;
  options.stream = arguments.stream.value_or(0);
  const auto store = [](std::optional<std::uint64_t>& into) {
    return [&into](std::optional<std::uint64_t> value) { into = value; };
  };
  Result<void> done = size_option("--request", arguments.request).map(store(options.request_bytes));
  if (done) {
    done = size_option("--device-total", arguments.device_total)
               .map(store(options.device_total_bytes));
  }
  if (done) {
    done =
        size_option("--device-free", arguments.device_free).map(store(options.device_free_bytes));
  }
  if (done) done = parse_limit(arguments.limit, options);
  if (done && !arguments.pool.empty()) {
    done = parse_pool(arguments.pool).map([&options](model::PoolId pool) { options.pool = pool; });
  }
  if (done && !arguments.at.empty()) {
    done = parse_moment(arguments.at).map([&options](const Moment& at) { options.at = at; });
  }
  if (done) done = check_facts(options);
  if (done) done = read_log(arguments.log, options);
  if (!done) return tl::unexpected<Error>(done.error());
  if (arguments.redact && !options.log_name.empty()) options.log_name = "(masked log)";
  if (!options.request_bytes && arguments.stream) {
    return tl::unexpected<Error>(
        wrong_option("--stream", std::to_string(*arguments.stream), "--request SIZE beside it"));
  }
  if (!options.request_bytes && options.at) {
    return tl::unexpected<Error>(wrong_option("--at", arguments.at, "--request SIZE beside it"));
  }
  return options;
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
  if (!arguments.exit_code || analyzed->failures.empty()) return kDone;
  return kFirstVerdictCode + static_cast<int>(analyzed->failures.back().judgement.verdict.kind);
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
  command->add_option("--request",
                      arguments->request,
                      "Ask for a request of this SIZE (4.94GiB, 512MiB, 20971520) instead of the "
                      "recorded failures");
  command->add_option(
      "--at",
      arguments->at,
      "When to ask: oom (the last failure), oom:N, peak, end (default) or before an "
      "event number");
  command->add_option(
      "--device", arguments->device, "Ordinal of the device; needed where several are");
  command->add_option("--stream", arguments->stream, "Stream of the request (default 0)");
  command->add_option("--pool",
                      arguments->pool,
                      "Pool of the request, or of a failure whose entry names none (default 0,0)");
  command->add_option("--device-total", arguments->device_total, "SIZE of the device's memory");
  command->add_option("--device-free",
                      arguments->device_free,
                      "SIZE that the driver has free at the moment of the request");
  command->add_option("--limit",
                      arguments->limit,
                      "Memory limit of the process: a SIZE, or a fraction such as 0.5");
  command->add_option("--log",
                      arguments->log,
                      "Take device total, limit and context from this log's message of the same "
                      "failure");
  command->add_flag("--json", arguments->json, "One JSON object a file, one line each");
  command->add_flag("--redact", arguments->redact, "Mask paths, file names and function names");
  command->add_option("--color", arguments->color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->add_flag(
      "--exit-code",
      arguments->exit_code,
      "Exit by the last verdict: 10 servable, 11 not-explained, 12 releasable, 13 limit, "
      "14 stranded, 15 fragmented, 16 scattered, 17 external, 18 capacity, 19 "
      "impossible, 20 unknown; 0 without a failure");
  command->callback([arguments, &run] { run = [arguments] { return run_analyze(*arguments); }; });
}

}  // namespace fragscope::cli
