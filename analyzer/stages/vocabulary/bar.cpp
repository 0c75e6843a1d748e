// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/vocabulary/bar.hpp"

#include "trace/ascii.hpp"

#include <charconv>
#include <optional>

namespace fragscope::stages {
namespace {

struct BarName {
  std::string_view text;
  BarKind kind;
  Stage stage;
  Engine engine;
};

/// The first that stands in a bar's name decides.
constexpr BarName kNames[] = {
    {"pipeline components", BarKind::kComponents, Stage::kCheckpointReading, Engine::kDiffusers},
    {"safetensors checkpoint shards", BarKind::kShards, Stage::kCheckpointReading, Engine::kNone},
    {"pt checkpoint shards", BarKind::kShards, Stage::kCheckpointReading, Engine::kNone},
    {"Loading checkpoint shards",
     BarKind::kShards,
     Stage::kCheckpointReading,
     Engine::kTransformers},
    {"Multi-thread loading shards", BarKind::kShards, Stage::kCheckpointReading, Engine::kNone},
    {"checkpoint shards", BarKind::kShards, Stage::kCheckpointReading, Engine::kNone},
    {"Loading weights", BarKind::kShards, Stage::kCheckpointReading, Engine::kTransformers},
    {"Downloading shards", BarKind::kWithin, Stage::kBeforeLaunch, Engine::kTransformers},
    {"Fetching", BarKind::kWithin, Stage::kBeforeLaunch, Engine::kNone},
    {"Capturing", BarKind::kWithin, Stage::kRuntimePreparation, Engine::kNone},
    {"DeepGEMM warmup", BarKind::kWithin, Stage::kRuntimePreparation, Engine::kNone},
    {"Sanity Checking", BarKind::kWithin, Stage::kRuntimePreparation, Engine::kLightning},
    {"Validation sanity check", BarKind::kWithin, Stage::kRuntimePreparation, Engine::kLightning},
    {"Processed prompts", BarKind::kSteps, Stage::kRequests, Engine::kVllm},
    {"Adding requests", BarKind::kWithin, Stage::kRequests, Engine::kVllm},
    {"Epoch ", BarKind::kSteps, Stage::kRequests, Engine::kLightning},
    {"Steps", BarKind::kSteps, Stage::kRequests, Engine::kNone},
};

/// A name longer than this is the text of a line, with a bar glued to its end.
constexpr std::size_t kMaxName = 120;

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  return text;
}

/// The whole number that `text` ends with, taken off it.
std::optional<std::uint64_t> take_number_at_end(std::string_view& text) {
  std::size_t begin = text.size();
  while (begin > 0 && is_digit(text[begin - 1]))
    --begin;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (error != std::errc{} || begin == text.size()) return std::nullopt;
  text = text.substr(0, begin);
  return value;
}

/// Whether what stands before the percentage is only a prefix: a tag in brackets, or nothing.
bool is_nameless(std::string_view before) {
  return before.empty() || before.ends_with(']') || before.ends_with("]:") ||
         before.ends_with(')') || before.ends_with('|');
}

void name_bar(std::string_view before, Bar& bar) {
  before = trim(before);
  if (is_nameless(before)) {
    bar.kind = BarKind::kNameless;
    bar.stage = Stage::kRequests;
    return;
  }
  if (before.size() > kMaxName) before.remove_prefix(before.size() - kMaxName);
  for (const BarName& name : kNames) {
    if (before.find(name.text) == std::string_view::npos) continue;
    bar.kind = name.kind;
    bar.stage = name.stage;
    bar.engine = name.engine;
    return;
  }
}

}  // namespace

void find_bars(std::string_view text, std::vector<Bar>& found) {
  found.clear();
  // "NAME:  53%|####    | 8/15 [00:16<00:14, ...": the bracket is the surest landmark.
  std::size_t name_begin = 0;
  for (std::size_t bracket = text.find(" ["); bracket != std::string_view::npos;
       bracket = text.find(" [", bracket + 1)) {
    std::string_view head = text.substr(name_begin, bracket - name_begin);
    const auto total = take_number_at_end(head);
    if (!total || !head.ends_with('/')) continue;
    head.remove_suffix(1);
    const auto done = take_number_at_end(head);
    const std::size_t percent = head.rfind('%');
    if (!done || percent == std::string_view::npos) continue;
    head = head.substr(0, percent);
    if (!take_number_at_end(head)) continue;
    Bar bar;
    bar.done = *done;
    bar.total = *total;
    bar.at_start = *done == 0 && text.substr(bracket).starts_with(" [00:00<?");
    name_bar(head, bar);
    found.push_back(bar);
    const std::size_t close = text.find(']', bracket);
    name_begin = close == std::string_view::npos ? text.size() : close + 1;
  }
}

}  // namespace fragscope::stages
