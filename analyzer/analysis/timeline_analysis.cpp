// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/timeline_analysis.hpp"

#include "analyzer/verdict/supply.hpp"

#include <algorithm>
#include <utility>

namespace fragscope::analysis {
namespace {

using model::EventIndex;
using model::HeapState;

verdict::VerdictKind judge_at(const HeapState& state,
                              const Failure& asked,
                              const model::StateSummary& summary,
                              const policy::SizeRules& rules) {
  verdict::Question question = asked.question;
  question.recorded = false;
  verdict::DeviceFacts facts = asked.facts;
  if (facts.free.known()) {
    facts.free.bytes = model::exactly(room_of(asked).free_with(summary.reserved_bytes));
  }
  const verdict::Supply supply = verdict::find_supply(state, question, rules);
  return verdict::judge(question, supply, summary.requested_bytes, facts, rules).verdict.kind;
}

std::vector<JudgedTurn> judge_turns(const model::History& history,
                                    const Failure& asked,
                                    const std::vector<servability::Turn>& turns,
                                    const policy::SizeRules& rules) {
  std::vector<EventIndex> targets;
  targets.reserve(turns.size());
  for (const servability::Turn& turn : turns) {
    const EventIndex behind = turn.cause.event + 1;
    if (turn.is_to_no() && history.is_known_before(behind)) targets.push_back(behind);
  }
  std::vector<JudgedTurn> judged;
  judged.reserve(targets.size());
  history.visit_states_until(targets, [&](EventIndex target, const HeapState& state) {
    const model::StateSummary summary = model::summarize(state, rules);
    judged.push_back({target - 1, judge_at(state, asked, summary, rules)});
    return true;
  });
  return judged;
}

}  // namespace

const JudgedTurn* TimelineAnalysis::judgement_at(EventIndex event) const {
  const auto found = std::ranges::find(judged, event, &JudgedTurn::event);
  return found == judged.end() ? nullptr : &*found;
}

Result<TimelineAnalysis> analyze_timeline(const model::Recording& recording,
                                          const model::History& history,
                                          Options options,
                                          std::size_t column_count) {
  const bool has_failure = !history.failed_requests().empty();
  if (options.request_bytes && has_failure) options.at = Moment{Moment::Kind::kOom, {}};
  TimelineAnalysis made;
  if (options.request_bytes || has_failure) {
    Result<Analysis> analysis = analyze(recording, Histories{&history}, options);
    if (!analysis) return tl::unexpected<Error>(analysis.error());
    made.asked = std::move(analysis->failures.back());
  }
  const policy::SizeRules& rules = recording.settings.rules;
  std::optional<servability::Watch> watch;
  if (made.asked) {
    watch = {request_of(made.asked->question), room_of(*made.asked), history.end_event()};
  }
  made.timeline = servability::find_timeline(history, watch, rules, column_count);
  if (made.timeline.asked) {
    made.judged = judge_turns(history, *made.asked, made.timeline.asked->turns, rules);
  }
  return made;
}

}  // namespace fragscope::analysis
