// SPDX-License-Identifier: Apache-2.0
#include "analyzer/difference/difference.hpp"

#include "analyzer/verdict/evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace fragscope::difference {
namespace {

using model::EventIndex;

std::optional<EventIndex> event_of(const model::History& history, Moment moment) {
  EventIndex event = history.end_event();
  if (moment == Moment::kPeak) {
    if (!history.has_events()) return std::nullopt;
    event = std::max(history.peak().event + 1, history.first_event());
  }
  if (moment == Moment::kFailure) {
    const auto failed = history.failed_requests();
    if (failed.empty()) return std::nullopt;
    event = failed.back().event;
  }
  // Where the end is not known, the last state that is stands for it.
  if (moment != Moment::kEnd && !history.is_known_before(event)) return std::nullopt;
  return event;
}

Moment choose(const Side& first, const Side& second) {
  for (const Moment moment : {Moment::kFailure, Moment::kPeak}) {
    if (event_of(first.history, moment) && event_of(second.history, moment)) return moment;
  }
  return Moment::kEnd;
}

using Holders = std::map<std::string, HolderPair>;
using Segments = std::map<std::tuple<bool, model::SizeClass, bool>, SegmentPair>;

class Reading {
 public:
  Reading(Difference& found, Holders& holders, Segments& segments)
      : found_(found)
      , holders_(holders)
      , segments_(segments) {}

  void read(const Side& side, EventIndex event, bool is_first) {
    SideState& state = is_first ? found_.first : found_.second;
    state.event = event;
    const auto take = [&](const model::HeapState& heap) {
      state.summary = summarize(heap, side.recording.settings.rules);
      for (const verdict::Holder& holder : verdict::find_holders(heap))
        add_holder(side, holder, is_first);
      for (const model::HeapSegment& segment : heap.segments)
        add_segment(segment, is_first);
    };
    if (!side.history.has_events()) return take(end_state(side.recording, side.history.device()));
    side.history.visit_states_until({&event, 1}, [&](EventIndex, model::HeapState& heap) {
      take(heap);
      return false;
    });
  }

 private:
  void add_holder(const Side& side, const verdict::Holder& holder, bool is_first) {
    HolderPair& pair = holders_[side.place(holder.stack)];
    (is_first ? pair.is_in_first : pair.is_in_second) = true;
    (is_first ? pair.first_stack : pair.second_stack) = holder.stack;
    (is_first ? pair.first_bytes : pair.second_bytes) += holder.bytes;
    (is_first ? pair.first_blocks : pair.second_blocks) += holder.blocks;
  }

  void add_segment(const model::HeapSegment& segment, bool is_first) {
    const bool is_private = segment.home.pool != model::kDefaultPool;
    SegmentPair& pair = segments_[{is_private, segment.home.size_class, segment.home.expandable}];
    pair.size_class = segment.home.size_class;
    pair.expandable = segment.home.expandable;
    pair.is_private = is_private;
    (is_first ? pair.first_bytes : pair.second_bytes) += segment.size_bytes;
    ++(is_first ? pair.first_count : pair.second_count);
  }

  Difference& found_;
  Holders& holders_;
  Segments& segments_;
};

std::uint64_t change(const HolderPair& pair) {
  return std::max(pair.first_bytes, pair.second_bytes) -
         std::min(pair.first_bytes, pair.second_bytes);
}

}  // namespace

Result<Difference> find_difference(const Side& first,
                                   const Side& second,
                                   std::optional<Moment> wanted) {
  Difference found;
  found.moment = wanted.value_or(choose(first, second));
  const auto first_event = event_of(first.history, found.moment);
  const auto second_event = event_of(second.history, found.moment);
  if (!first_event || !second_event) {
    return failure(ErrorCode::kUsage,
                   fmt::format("{} has no {}",
                               first_event ? "B" : "A",
                               found.moment == Moment::kFailure ? "failed request" : "history"));
  }
  Holders holders;
  Segments segments;
  Reading reading(found, holders, segments);
  reading.read(first, *first_event, true);
  reading.read(second, *second_event, false);
  for (auto& [place, pair] : holders)
    found.holders.push_back(pair);
  std::ranges::stable_sort(found.holders, std::greater<>{}, change);
  found.holder_count = found.holders.size();
  found.holders.resize(std::min(found.holders.size(), kKeptHolderPairs));
  for (auto& [kind, pair] : segments)
    found.segments.push_back(pair);
  found.facts = compare_facts(first.recording, second.recording);
  found.settings = settings_likeness(found.facts);
  return found;
}

}  // namespace fragscope::difference
