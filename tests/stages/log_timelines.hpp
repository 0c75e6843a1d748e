// SPDX-License-Identifier: Apache-2.0
// For tests of start-up timelines: a log as text becomes timelines, and a timeline becomes one line
// of text to compare. Only lines with a stage phrase reach the builder, as in the program.
#pragma once

#include "analyzer/logtext/clean_text.hpp"
#include "analyzer/logtext/log_line.hpp"
#include "analyzer/stages/timeline_builder.hpp"
#include "trace/ascii.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::stages::test {

inline std::string lower_case(std::string_view text) {
  std::string low(text);
  std::ranges::transform(low, low.begin(), lower);
  return low;
}

/// A phrase for a whole line has the line breaks around it.
inline bool has_stage_phrase(std::string_view line) {
  const std::string low = '\n' + lower_case(line) + '\n';
  return std::ranges::any_of(stage_phrases(), [&](std::string_view phrase) {
    return low.find(lower_case(phrase)) != std::string::npos;
  });
}

inline std::vector<Timeline> timelines_of(std::string_view log) {
  TimelineBuilder builder;
  std::uint64_t number = 0;
  while (!log.empty()) {
    const std::size_t end = log.find('\n');
    ++number;
    // The scanner sees the line as it is, with its colours and escapes.
    if (has_stage_phrase(log.substr(0, end))) {
      const std::string text = logtext::clean_text(log.substr(0, end));
      builder.add(logtext::read_line(text, number));
    }
    log = end == std::string_view::npos ? std::string_view() : log.substr(end + 1);
  }
  return builder.finish();
}

inline std::string name_of(const std::optional<Stage>& stage) {
  return stage ? std::string(to_string(*stage)) : "none";
}

/// "vllm: last weight-placement, failing requests, recovered none, ready"
inline std::string summary_of(const Timeline& timeline) {
  std::string recovered;
  for (const Stage stage : timeline.recovered) {
    recovered += recovered.empty() ? "" : "+";
    recovered += to_string(stage);
  }
  return timeline.engine + ": last " + name_of(timeline.last_completed) + ", failing " +
         name_of(timeline.failing) + ", recovered " + (recovered.empty() ? "none" : recovered) +
         (timeline.ready ? ", ready" : ", not ready");
}

/// The summaries of all timelines of a log, " | " between them.
inline std::string summary_of(std::string_view log) {
  std::string text;
  for (const Timeline& timeline : timelines_of(log)) {
    if (!text.empty()) text += " | ";
    text += summary_of(timeline);
  }
  return text;
}

/// Every fact of a timeline, one per line.
inline std::string facts_of(const Timeline& timeline) {
  std::string text;
  for (const StageRecord& stage : timeline.stages) {
    for (const StageFact& fact : stage.facts)
      text += to_string(fact) + '\n';
  }
  return text;
}

}  // namespace fragscope::stages::test
