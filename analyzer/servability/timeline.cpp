// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/timeline.hpp"

#include "analyzer/servability/heap_offer.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace fragscope::servability {

using model::CourseKind;
using model::CourseStep;
using model::EventIndex;
using model::Home;

namespace {

void raise(std::optional<Column>& column, std::uint64_t bytes) {
  if (!column) {
    column = Column{bytes, bytes};
    return;
  }
  column->least_bytes = std::min(column->least_bytes, bytes);
  column->most_bytes = std::max(column->most_bytes, bytes);
}

/// Half of them from the beginning, the others from the end.
void keep(std::vector<Turn>& turns, const Turn& turn) {
  if (turns.size() == 2 * kKeptTurns) turns.erase(turns.begin() + kKeptTurns);
  turns.push_back(turn);
}

class TimelineWalk final : public model::CourseListener {
 public:
  TimelineWalk(Timeline& timeline,
               const std::optional<Watch>& asked,
               const policy::SizeRules& rules)
      : timeline_(timeline)
      , offer_(rules) {
    timeline_.asked_behind.resize(timeline_.column_count);
    if (!asked) return;
    answer_.emplace(*asked);
    AskedCurves& curves = timeline_.asked.emplace();
    curves.watch = *asked;
    curves.largest_served.resize(timeline_.column_count);
    curves.free_at_home.resize(timeline_.column_count);
  }

  void begin(EventIndex event,
             const model::CourseLevels& levels,
             const model::StateSource& state) override {
    offer_.begin(state(), levels);
    // A home of an earlier heap that this one lacks has no run.
    for (auto& [home, bytes] : runs_)
      bytes = 0;
    for (const Home& home : offer_.runs().changed())
      runs_.try_emplace(home, 0);
    is_known_ = true;
    column_ = column_of(std::max(event, timeline_.first_event));
    if (answer_) answer_->begin(event, offer_);
    if (answer_ && !has_begun_) {
      timeline_.asked->known_from = event;
      timeline_.asked->first = answer_->now();
    }
    has_begun_ = true;
    settle(event);
    raise_all();
  }

  void step(const CourseStep& step, const model::CourseLevels& levels) override {
    if (!is_known_) return;
    move_to(column_of(step.event));
    offer_.step(step, levels);
    if (answer_) {
      const std::optional<Turn> turn = answer_->step(step, offer_);
      if (turn) {
        ++timeline_.asked->turn_count;
        keep(timeline_.asked->turns, *turn);
      }
    }
    // Of a segment that just came, the request that it came for takes its part.
    if (step.kind != CourseKind::kDevice || !step.comes) settle(step.event);
  }

  void mark(const model::CourseMark& /*mark*/) override {}

  void lose(EventIndex event, bool /*marks_are_missing*/) override {
    if (is_known_) move_to(column_of(std::max(event, timeline_.first_event)));
    is_known_ = false;
    timeline_.was_lost = true;
    if (answer_) answer_->lose();
  }

  void end() {
    if (is_known_ && timeline_.column_count > 0) move_to(timeline_.column_count - 1);
    if (answer_) timeline_.asked->last = answer_->now();
    for (auto& [home, curve] : curves_) {
      HomeCurve& made = timeline_.homes.emplace_back();
      made.home = home;
      made.largest_run = std::move(curve);
      made.least_bytes = ~std::uint64_t{0};
      for (std::size_t i = 0; i < timeline_.column_count; ++i) {
        std::optional<Column>& column = made.largest_run[i];
        if (!timeline_.asked_behind[i]) continue;
        if (!column) column = Column{};  // The heap is known, and the home had not come yet.
        made.least_bytes = std::min(made.least_bytes, column->least_bytes);
        made.most_bytes = std::max(made.most_bytes, column->most_bytes);
      }
    }
  }

 private:
  [[nodiscard]] std::size_t column_of(EventIndex event) const {
    const auto count = static_cast<std::uint64_t>(timeline_.end_event - timeline_.first_event);
    const auto at = static_cast<std::uint64_t>(event - timeline_.first_event);
    return static_cast<std::size_t>(at * timeline_.column_count /
                                    std::max<std::uint64_t>(count, 1));
  }

  /// What holds now held in all columns up to that one.
  void move_to(std::size_t column) {
    while (column_ < column) {
      ++column_;
      raise_all();
    }
  }

  /// What is said of the heap from now on, up to the next time.
  void settle(EventIndex event) {
    asked_behind_ = event;
    for (const Home& home : offer_.runs().changed()) {
      const auto [now, is_new] = runs_.try_emplace(home, 0);
      if (is_new) raise(curve_of(home)[column_], 0);  // until it came
      now->second = offer_.runs().find(home)->largest_bytes();
      raise(curve_of(home)[column_], now->second);
    }
    offer_.runs().forget_changes();
    if (answer_) {
      const Watch& watch = answer_->watch();
      largest_served_ = offer_.largest_served_bytes(watch.request, watch.room);
      free_at_home_ = offer_.free_bytes(watch.request);
    }
    raise_asked();
  }

  void raise_all() {
    for (const auto& [home, bytes] : runs_)
      raise(curve_of(home)[column_], bytes);
    raise_asked();
  }

  void raise_asked() {
    timeline_.asked_behind[column_] = asked_behind_;
    if (!answer_) return;
    raise(timeline_.asked->largest_served[column_], largest_served_);
    raise(timeline_.asked->free_at_home[column_], free_at_home_);
  }

  Curve& curve_of(const Home& home) {
    Curve& curve = curves_[home];
    if (curve.empty()) curve.resize(timeline_.column_count);
    return curve;
  }

  Timeline& timeline_;
  HeapOffer offer_;
  std::optional<AnswerWatch> answer_;
  std::map<Home, std::uint64_t> runs_;  // the longest of each, now
  std::map<Home, Curve> curves_;
  // What is said of the heap: a segment that just came is not seen yet.
  std::uint64_t largest_served_ = 0;
  std::uint64_t free_at_home_ = 0;
  EventIndex asked_behind_ = model::kBeforeFirst;
  std::size_t column_ = 0;
  bool is_known_ = false;
  bool has_begun_ = false;
};

}  // namespace

EventIndex Timeline::begin_of(std::size_t column) const {
  // The first event for which `column_of` gives the column.
  const auto count = static_cast<std::uint64_t>(end_event - first_event);
  const std::uint64_t columns = std::max<std::uint64_t>(column_count, 1);
  return first_event + static_cast<EventIndex>((column * count + columns - 1) / columns);
}

Timeline find_timeline(const model::History& history,
                       const std::optional<Watch>& asked,
                       const policy::SizeRules& rules,
                       std::size_t column_count) {
  Timeline timeline;
  timeline.first_event = history.first_event();
  timeline.end_event = history.end_event();
  const auto events = static_cast<std::size_t>(timeline.end_event - timeline.first_event);
  timeline.column_count = std::min(column_count, events);
  if (timeline.column_count == 0) return timeline;
  TimelineWalk walk(timeline, asked, rules);
  history.walk(walk);
  walk.end();
  return timeline;
}

}  // namespace fragscope::servability
