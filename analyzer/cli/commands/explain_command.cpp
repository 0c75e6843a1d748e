// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/cli/progress.hpp"
#include "analyzer/explain/devices/device_file.hpp"
#include "analyzer/explain/explainer.hpp"
#include "analyzer/explain/redaction.hpp"
#include "analyzer/report/explain/diagnostic_record.hpp"
#include "analyzer/report/explain/explain_json.hpp"
#include "analyzer/report/explain/explain_text.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/stages/weights/model_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::cli {
namespace {

constexpr const char* kAssumedFormat = "bf16";

struct ExplainArguments {
  std::vector<std::string> files;
  std::string devices;
  std::string model;
  std::string weights;
  std::string format;
  std::uint32_t gpus = 0;  ///< 0: not given.
  std::string color = "auto";
  bool record = false;
  bool json = false;
  bool redact = false;
};

Result<explain::DeviceList> read_devices(const std::string& path) {
  if (path.empty()) return explain::DeviceList{};
  std::ifstream file(path);
  // A few hundred bytes a device; more is another file.
  constexpr std::size_t kMaxListing = 1U << 20;
  std::string listing(kMaxListing, '\0');
  file.read(listing.data(), static_cast<std::streamsize>(listing.size()));
  const auto named = [&path](Error error) {
    error.source = path;
    return error;
  };
  if (file.bad() || file.gcount() == 0) {
    auto unread = failure(ErrorCode::kUnreadable,
                          "cannot be read; expected the output of fragscope devices --json or "
                          "nvidia-smi -L");
    return tl::unexpected(named(std::move(unread.value())));
  }
  listing.resize(static_cast<std::size_t>(file.gcount()));
  return explain::read_device_file(listing).map_error(named);
}

Result<std::optional<report::Weights>> read_weights(const ExplainArguments& arguments) {
  const bool is_given = !arguments.model.empty() || !arguments.weights.empty();
  if (!is_given && arguments.gpus > 0) {
    return failure(ErrorCode::kUsage, "--gpus needs --model or --weights");
  }
  if (arguments.weights.empty() && !arguments.format.empty()) {
    return failure(ErrorCode::kUsage, "--format needs --weights");
  }
  if (!is_given) return std::optional<report::Weights>{};
  const bool is_assumed = arguments.model.empty() && arguments.format.empty();
  auto bound = arguments.model.empty()
                   ? stages::bound_from_parameters(arguments.weights,
                                                   is_assumed ? kAssumedFormat : arguments.format)
                   : stages::bound_from_folder(arguments.model);
  if (!bound) return tl::unexpected<Error>(bound.error());
  if (is_assumed) {
    bound->notes.push_back(
        fmt::format("{} is assumed, since --format does not say", kAssumedFormat));
  }
  return std::optional(report::Weights{std::move(*bound), std::max(arguments.gpus, 1U)});
}

/// What is known beside the logs.
struct Beside {
  explain::DeviceList devices;
  std::optional<report::Weights> weights;
};

Result<void> explain_file(const std::string& path,
                          const ExplainArguments& arguments,
                          const Beside& beside) {
  Progress progress("reading " + report::printable(path));
  auto explained = explain::explain_log(
      path, [&progress](std::uint64_t done, std::uint64_t total) { progress.show(done, total); });
  if (!explained) {
    Error error = explained.error();
    error.source = path;
    return tl::unexpected<Error>(std::move(error));
  }
  explain::Explanation explanation = *std::move(explained);
  explain::add_figures_before(beside.devices, explanation);
  if (arguments.redact) explanation = explain::redacted(std::move(explanation));
  const std::string shown_path = arguments.redact ? "(masked)" : path;
  if (arguments.json) {
    fmt::print("{}\n",
               report::explain_json(explanation, FRAGSCOPE_VERSION, shown_path, beside.weights));
  } else if (arguments.record) {
    fmt::print("{}",
               report::diagnostic_record(explanation, shown_path, beside.devices, beside.weights));
  } else {
    const report::Paint paint(wants_colour(arguments.color));
    fmt::print("{}", report::explain_text(explanation, shown_path, paint));
    if (beside.weights) {
      fmt::print(
          "{}",
          report::weights_text(beside.weights->bound, beside.weights->devices, explanation, paint));
    }
  }
  return {};
}

int run_explain(const ExplainArguments& arguments) {
  Beside beside;
  const Result<void> known =
      read_devices(arguments.devices)
          .map([&beside](explain::DeviceList devices) { beside.devices = std::move(devices); })
          .and_then([&arguments] { return read_weights(arguments); })
          .map([&beside](std::optional<report::Weights> weights) {
            beside.weights = std::move(weights);
          });
  if (!known) return complain(known.error());
  int code = kDone;
  for (std::size_t i = 0; i < arguments.files.size(); ++i) {
    if (i > 0 && !arguments.json) fmt::print("\n");
    const Result<void> done = explain_file(arguments.files[i], arguments, beside);
    if (!done) code = complain(done.error());
  }
  return printed(code);
}

}  // namespace

void add_explain_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* command = app.add_subcommand(
      "explain", "Find out-of-memory messages in logs and say what their numbers prove");
  command->add_option("FILE", arguments->files, "Logs; - is standard input, also without a FILE")
      ->check(standard_input_once());
  auto* record =
      command->add_flag("--record",
                        arguments->record,
                        "Print a short diagnostic record of the last failure, for an issue");
  command->add_option("--devices",
                      arguments->devices,
                      "Take UUIDs, and what was free before, from this file (the output of "
                      "fragscope devices --json, or of nvidia-smi -L)");
  auto* model = command->add_option("--model",
                                    arguments->model,
                                    "Folder of a model: the lower bound of its weights, from the "
                                    "headers of *.safetensors and config.json");
  command
      ->add_option("--weights", arguments->weights, "The same from a number of parameters, as 70B")
      ->excludes(model);
  command->add_option("--format",
                      arguments->format,
                      "Format of --weights: fp32, bf16 (the default), fp8, int4, ...");
  command
      ->add_option("--gpus", arguments->gpus, "Devices that share the weights evenly (default 1)")
      ->check(CLI::Range(1, 100000));
  command->add_flag(
      "--redact", arguments->redact, "Mask paths, addresses, processes and what precedes messages");
  command->add_flag("--json", arguments->json, "One JSON object a file, one line each")
      ->excludes(record);
  command->add_option("--color", arguments->color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->callback([arguments, &run] {
    if (arguments->files.empty()) arguments->files.emplace_back("-");
    run = [arguments] { return run_explain(*arguments); };
  });
}

}  // namespace fragscope::cli
