// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/explainer.hpp"

#include "analyzer/explain/collector/message_collector.hpp"
#include "analyzer/explain/message/message_reader.hpp"
#include "analyzer/logtext/clean_text.hpp"
#include "analyzer/logtext/phrase_scanner.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace fragscope::explain {
namespace {

// The groups of phrases, in the order in which the scanner gets them.
constexpr std::uint32_t kMessage = 1U << 0;
constexpr std::uint32_t kStage = 1U << 1;
constexpr std::uint32_t kDevice = 1U << 2;

const logtext::PhraseScanner& scanner() {
  static const logtext::PhraseScanner all(
      {message_phrases(), stages::stage_phrases(), device_phrases()});
  return all;
}

/// Gives each line to those who look for one of its phrases.
class Explainer {
 public:
  void add(const logtext::LineHit& hit) {
    if ((hit.groups & kMessage) != 0) messages_.add(hit);
    if ((hit.groups & kDevice) != 0) add_device(hit.line, devices_);
    if ((hit.groups & kStage) == 0) return;
    const std::string text = logtext::clean_text(hit.line);
    timelines_.add(logtext::read_line(text, hit.number));
  }

  [[nodiscard]] Explanation finish(logtext::LogTotals totals) {
    Explanation explanation;
    explanation.totals = totals;
    explanation.dropped_count = messages_.dropped_count();
    for (Message& message : messages_.take_messages()) {
      Finding finding = judge_message(message);
      explanation.reports.push_back({std::move(message), std::move(finding), std::nullopt});
    }
    explanation.timelines = timelines_.finish();
    explanation.skipped_starts = timelines_.skipped_starts();
    explanation.devices = std::move(devices_);
    return explanation;
  }

 private:
  MessageCollector messages_;
  stages::TimelineBuilder timelines_;
  DeviceList devices_;
};

}  // namespace

Result<Explanation> explain_log(const std::string& path, const ingest::ProgressFn& progress) {
  Explainer explainer;
  return logtext::read_log(
             path, scanner(), [&](const logtext::LineHit& hit) { explainer.add(hit); }, progress)
      .map([&](const logtext::LogTotals& totals) { return explainer.finish(totals); });
}

Explanation explain_log_text(std::string_view log) {
  Explainer explainer;
  const logtext::LogTotals totals =
      logtext::read_text(log, scanner(), [&](const logtext::LineHit& hit) { explainer.add(hit); });
  return explainer.finish(totals);
}

}  // namespace fragscope::explain
