// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/timeline_analysis.hpp"

#include "analyzer/recording/byte_size.hpp"
#include "analyzer/verdict/supply.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
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

/// From an eighth of the request to four times its size.
std::vector<std::uint64_t> sizes_around(std::uint64_t size_bytes) {
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t divisor : {8U, 4U, 2U, 1U})
    sizes.push_back(std::max<std::uint64_t>(size_bytes / divisor, 1));
  if (size_bytes < policy::kTooLarge / 4) {
    sizes.push_back(size_bytes * 2);
    sizes.push_back(size_bytes * 4);
  }
  return sizes;
}

/// As the allocator rounds them, each once. Those of the other class are left out, since other
/// segments serve them.
std::vector<std::uint64_t> sizes_to_ask(const servability::Request& request,
                                        const policy::SizeRules& rules) {
  std::set<std::uint64_t> rounded;
  for (const std::uint64_t size : sizes_around(request.size_bytes)) {
    const std::uint64_t asked = policy::round_size(size, rules);
    if (policy::size_class(asked) == request.size_class()) rounded.insert(asked);
  }
  return {rounded.begin(), rounded.end()};
}

/// The same of those that `--sizes` names, which are to be of the request's class.
Result<std::vector<std::uint64_t>> named_sizes(const std::vector<std::uint64_t>& named,
                                               const servability::Request& request,
                                               const policy::SizeRules& rules) {
  std::set<std::uint64_t> rounded;
  for (const std::uint64_t size : named) {
    if (size == 0 || size >= policy::kTooLarge) {
      return failure(ErrorCode::kUsage,
                     "--sizes: requests of 0 bytes, or of 1 EiB and more, never reach the "
                     "allocator");
    }
    const std::uint64_t asked = policy::round_size(size, rules);
    if (policy::size_class(asked) != request.size_class()) {
      return failure(ErrorCode::kUsage,
                     fmt::format("--sizes {}: expected sizes of the class of the request ({}, {}), "
                                 "since the other class is served by other segments",
                                 model::show_bytes(size),
                                 model::show_bytes(request.size_bytes),
                                 policy::to_string(request.size_class())));
    }
    rounded.insert(asked);
  }
  return std::vector<std::uint64_t>(rounded.begin(), rounded.end());
}

/// The heaps that the columns end with, each once.
std::vector<EventIndex> ends_of_columns(const servability::Timeline& timeline) {
  std::vector<EventIndex> targets;
  targets.reserve(timeline.column_count);
  for (const std::optional<EventIndex>& behind : timeline.asked_behind) {
    if (behind && (targets.empty() || targets.back() <= *behind)) targets.push_back(*behind + 1);
  }
  return targets;
}

}  // namespace

const JudgedTurn* TimelineAnalysis::judgement_at(EventIndex event) const {
  const auto found = std::ranges::find(judged, event, &JudgedTurn::event);
  return found == judged.end() ? nullptr : &*found;
}

Result<TimelineAnalysis> analyze_timeline(const model::Recording& recording,
                                          const model::History& history,
                                          Options options,
                                          const TimelineOptions& wanted) {
  options.find_moments = false;  // the walk below finds all turns of the one that is asked
  options.last_failure_only = true;
  const bool has_failure = !history.failed_requests().empty();
  if (options.request_bytes && has_failure) options.at = Moment{Moment::Kind::kOom, {}};
  TimelineAnalysis made;
  if (!wanted.sizes.empty() && !options.request_bytes && !has_failure) {
    return failure(ErrorCode::kUsage,
                   "--sizes: expected --request SIZE beside it, since no request failed: pool, "
                   "class and stream are those of the request");
  }
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
  made.timeline = servability::find_timeline(history, watch, rules, wanted.column_count);
  if (!made.timeline.asked) return made;
  made.judged = judge_turns(history, *made.asked, made.timeline.asked->turns, rules);
  auto sizes = wanted.sizes.empty() ? sizes_to_ask(watch->request, rules)
                                    : named_sizes(wanted.sizes, watch->request, rules);
  if (!sizes) return tl::unexpected<Error>(sizes.error());
  auto map = servability::find_size_map(
      history, *watch, std::move(*sizes), ends_of_columns(made.timeline), rules, wanted.scan_on);
  if (!map) return tl::unexpected<Error>(map.error());
  made.size_map = std::move(*map);
  return made;
}

}  // namespace fragscope::analysis
