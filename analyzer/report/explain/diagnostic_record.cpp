// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/explain/diagnostic_record.hpp"

#include "analyzer/explain/finding_text.hpp"
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/explain/explain_text.hpp"
#include "analyzer/report/explain/figure_labels.hpp"
#include "analyzer/report/frame_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace fragscope::report {
namespace {

using explain::Bounds;
using explain::Explanation;
using explain::Figures;
using explain::Kind;
using explain::Message;
using explain::Report;
using model::show_count;

constexpr std::size_t kMaxProcesses = 16;
constexpr std::size_t kMaxTimelines = 8;

/// The last report that is a failure.
const Report* last_failure(const Explanation& explanation) {
  for (std::size_t i = explanation.reports.size(); i-- > 0;) {
    if (explanation.reports[i].finding.kind != Kind::kNotAnOom) return &explanation.reports[i];
  }
  return nullptr;
}

std::string source_text(const Message& message, const std::string& path) {
  std::string text = fmt::format(
      "- log: {}, line {}{}\n",
      printable(path),
      message.line,
      message.count > 1 ? fmt::format(" and {} more times", show_count(message.count - 1))
                        : std::string());
  text += fmt::format("- time stamp: {}\n",
                      message.time.empty() ? "none on the line" : printable(message.time));
  if (!message.process.empty()) text += fmt::format("- process: {}\n", printable(message.process));
  text += fmt::format("- written by: {}, as the wording shows (backend {})\n",
                      message.format,
                      explain::to_string(message.backend));
  return text;
}

std::string device_text(const Message& message,
                        const explain::DeviceList& given,
                        const explain::DeviceList& logged) {
  if (!message.device) return "The message does not name it.\n";
  std::string text = fmt::format("Index {}, ", *message.device);
  const auto in_file = given.find(*message.device);
  const auto in_log = logged.find(*message.device);
  if (in_file != given.end() || in_log != logged.end()) {
    const bool is_given = in_file != given.end();
    const explain::Device& device = is_given ? in_file->second : in_log->second;
    text += fmt::format("{}, {} (by {}). ",
                        printable(device.name),
                        printable(device.uuid),
                        is_given ? "the list given" : "a list in the log");
  } else {
    text += "UUID not in the log. ";
  }
  text +=
      "The index is the process's own: inside a container, or under CUDA_VISIBLE_DEVICES, "
      "it may differ from the host's.\n";
  return text;
}

struct FigureLine {
  std::string_view name;
  std::optional<Bounds> bounds;
  std::string_view source;
  bool expected;  ///< Every complete message of PyTorch has it.
};

std::string numbers_text(const Message& message) {
  const Figures& figures = message.figures;
  const FigureLabels labels = figure_labels(message);
  // No gap exists where nothing is said to be reserved.
  const bool is_device = message.shape != explain::Shape::kHost;
  const bool has_gap =
      is_device && message.shape != explain::Shape::kAsync && message.shape != explain::Shape::kMps;
  const bool has_card = is_device && message.shape != explain::Shape::kMps;
  const std::array<FigureLine, 11> lines = {{
      {"request", figures.request, labels.request, true},
      {"tensor behind it", figures.tensor, "derived: sizes for which that is printed", false},
      {"device total", figures.total, labels.total, has_card},
      {"device free", figures.free, labels.free, has_card},
      {"allocated", figures.allocated, labels.allocated, is_device},
      {"gap", figures.gap, "allocator: held, not live", has_gap},
      {"in private pools", figures.private_pools, "allocator: part of the gap", false},
      {"other allocations", figures.other_allocations, "outside this allocator", false},
      {"limit", figures.limit, labels.limit, false},
      {"this process", figures.process, "NVML", false},
      {"outside", explain::outside_bytes(figures), "derived: total - free - reserved", false},
  }};
  std::string text;
  std::string missing;
  for (const FigureLine& line : lines) {
    if (line.bounds) {
      text += fmt::format("- {}: {}, {} to {} bytes ({})\n",
                          line.name,
                          explain::shown(*line.bounds),
                          show_count(line.bounds->low),
                          show_count(line.bounds->high),
                          line.source);
    } else if (line.expected) {
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", line.name);
    }
  }
  for (const std::string& unreadable : message.unreadable) {
    text += fmt::format("- not readable as printed: {}\n", printable(unreadable));
  }
  return text + fmt::format("- missing from the text: {}\n", missing.empty() ? "nothing" : missing);
}

std::string users_text(const Figures& figures) {
  if (figures.processes.empty()) {
    return "The message lists no other process, which does not show that there was none.\n";
  }
  std::string text;
  const std::size_t shown = std::min(figures.processes.size(), kMaxProcesses);
  for (std::size_t i = 0; i < shown; ++i) {
    const explain::ProcessUse& use = figures.processes[i];
    text += fmt::format("- process {}: {} (NVML)\n", printable(use.pid), explain::shown(use.bytes));
  }
  if (shown < figures.processes.size()) {
    text += fmt::format("- and {} more\n", figures.processes.size() - shown);
  }
  return text;
}

std::string stages_text(const Explanation& explanation) {
  const auto name = [](const std::optional<stages::Stage>& stage) {
    return stage ? std::string(stages::to_string(*stage)) : std::string("none");
  };
  std::string text;
  const auto& timelines = explanation.timelines;
  const std::size_t first = timelines.size() - std::min(timelines.size(), kMaxTimelines);
  for (std::size_t i = first; i < timelines.size(); ++i) {
    const stages::Timeline& timeline = timelines[i];
    const std::string engine =
        fmt::format("{} {}",
                    timeline.engine,
                    timeline.version.empty() ? "(version not in the log)" : timeline.version);
    text += fmt::format("- {}: last completed stage {}, failing stage {}, {}\n",
                        printable(engine),
                        name(timeline.last_completed),
                        name(timeline.failing),
                        timeline.ready ? "was ready" : "was not ready");
  }
  return text.empty() ? "- no start-up lines of a known engine in the log\n" : text;
}

std::string list_text(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items)
    text += "- " + printable(item) + "\n";
  return text;
}

std::string weights_section(const Weights& weights, const Explanation& explanation) {
  const stages::WeightBound& bound = weights.bound;
  std::string text = fmt::format("\n### Weights\n\n- at least {}, {} bytes, in the whole model\n",
                                 model::show_bytes(bound.bytes),
                                 show_count(bound.bytes));
  if (bound.sources.size() == 1) {
    text += fmt::format("- from {}\n", printable(bound.sources.front().source));
  } else {
    text += fmt::format("- from {} files\n", show_count(bound.sources.size()));
  }
  return text + list_text(bound.notes) + list_text(cards_text(bound, weights.devices, explanation));
}

}  // namespace

std::string diagnostic_record(const Explanation& explanation,
                              const std::string& path,
                              const explain::DeviceList& devices,
                              const std::optional<Weights>& weights) {
  const Report* report = last_failure(explanation);
  if (report == nullptr) return "no failed allocation in " + printable(path) + "\n";
  const Message& message = report->message;
  const explain::Finding& finding = report->finding;
  std::string also;
  for (const Kind kind : finding.also)
    also += fmt::format(", also {}", explain::to_string(kind));

  std::string text = "## Out-of-memory record\n\n### Source\n\n" + source_text(message, path);
  text += fmt::format("\n### Message\n\n    {}\n", printable(message.text));
  text += "\n### Device\n\n" + device_text(message, devices, explanation.devices);
  if (report->before) text += fmt::format("Before: {}.\n", printable(before_text(*report->before)));
  text +=
      "\n### Numbers\n\nEach with its layer; layers overlap and are never added. A range is "
      "what the printed rounding allows.\n\n";
  text += numbers_text(message);
  text += "\n### Other users of the device\n\n" + users_text(message.figures);
  text += "\n### Stage\n\n" + stages_text(explanation);
  if (weights) text += weights_section(*weights, explanation);
  text += fmt::format("\n### Reading\n\n{}{} ({}). {}\n",
                      explain::to_string(finding.kind),
                      also,
                      finding.certain ? "certain" : "possible",
                      printable(finding.text));
  if (!finding.notes.empty()) text += "\n" + list_text(finding.notes);
  if (!finding.next.empty()) text += "\n### What would decide\n\n" + list_text(finding.next);
  return text;
}

}  // namespace fragscope::report
