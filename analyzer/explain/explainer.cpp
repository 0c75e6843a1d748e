// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/explainer.hpp"

#include "analyzer/explain/message/message_collector.hpp"
#include "analyzer/explain/message/message_reader.hpp"
#include "analyzer/logtext/phrase_scanner.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace fragscope::explain {
Result<Explanation> explain_log(const std::string& path, const ingest::ProgressFn& progress) {
  constexpr std::uint32_t kMessage = 1U << 0;
  constexpr std::uint32_t kStage = 1U << 1;
  const logtext::PhraseScanner scanner({message_phrases(), stages::stage_phrases()});
  MessageCollector messages;
  stages::TimelineBuilder timelines;
  const auto use = [&](const logtext::LineHit& hit) {
    if ((hit.groups & kMessage) != 0) messages.add(hit);
    if ((hit.groups & kStage) == 0) return;
    const std::string text = logtext::clean_text(hit.line);
    timelines.add(logtext::read_line(text, hit.number));
  };
  const Result<logtext::LogTotals> totals = logtext::read_log(path, scanner, use, progress);
  if (!totals) return tl::unexpected<Error>(totals.error());

  Explanation explanation;
  explanation.totals = *totals;
  explanation.dropped_count = messages.dropped_count();
  for (Message& message : messages.take_messages()) {
    Finding finding = judge_message(message);
    explanation.reports.push_back({std::move(message), std::move(finding)});
  }
  explanation.timelines = timelines.finish();
  explanation.skipped_starts = timelines.skipped_starts();
  return explanation;
}

}  // namespace fragscope::explain
