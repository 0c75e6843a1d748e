// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/explainer.hpp"

#include "analyzer/explain/message/message_collector.hpp"
#include "analyzer/explain/message/message_reader.hpp"
#include "analyzer/logtext/phrase_scanner.hpp"

#include <string_view>
#include <utility>

namespace fragscope::explain {
namespace {

std::vector<std::string_view> all_phrases() {
  std::vector<std::string_view> phrases;
  for (const std::string_view phrase : message_phrases())
    phrases.push_back(phrase);
  for (const std::string_view phrase : stages::stage_phrases())
    phrases.push_back(phrase);
  return phrases;
}

}  // namespace

Result<Explanation> explain_log(const std::string& path, const ingest::ProgressFn& progress) {
  const logtext::PhraseScanner scanner(all_phrases());
  MessageCollector messages;
  stages::TimelineBuilder timelines;
  const auto use = [&](const logtext::LineHit& hit) {
    messages.add(hit);
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
