// SPDX-License-Identifier: Apache-2.0
#include "analyzer/course/stage_memory.hpp"

#include "analyzer/course/mark_names.hpp"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

namespace fragscope::course {
namespace {

using model::CourseLevels;
using model::CourseMark;
using model::EventIndex;
using model::MarkPhase;

/// More that are open at once are not followed.
constexpr std::size_t kMostOpen = 1024;
/// Groups whose stacks are looked for.
constexpr std::size_t kGroupsWithStacks = 12;

constexpr const char* kBefore = "before the first stage";
constexpr const char* kBetween = "between stages";
constexpr const char* kAfter = "after the last stage";

std::uint64_t allocated(const Moment& moment) {
  return moment.levels.allocated_bytes.low;
}

std::int64_t signed_of(std::uint64_t bytes) {
  return static_cast<std::int64_t>(bytes);
}

/// Groups of stages by name.
class GroupTable {
 public:
  std::size_t find(std::string_view name, StageSource source) {
    const std::string folded = without_numbers(name);
    const auto [place, is_new] = places_.try_emplace({source, folded}, groups_.size());
    if (!is_new) {
      StageGroup& known = groups_[place->second];
      if (known.name != name) known.name = folded;
      return place->second;
    }
    if (groups_.size() == kMostStageGroups) {
      places_.erase(place);
      groups_.back().name = "(other stages)";
      groups_.back().stage.reset();
      return groups_.size() - 1;
    }
    StageGroup& group = groups_.emplace_back();
    group.name = name;
    group.source = source;
    if (source != StageSource::kNobody) group.stage = known_stage(name);
    return groups_.size() - 1;
  }

  void add(std::size_t place, const StageSpan& span) {
    StageGroup& group = groups_[place];
    if (group.count++ == 0) group.first = span;
    group.last = span;
    const bool has_peak = span.is_known && span.extremes.most_allocated.has_value();
    group.unknown_count += has_peak ? 0 : 1;
    if (!has_peak) return;
    const auto& highest = group.highest.extremes.most_allocated;
    if (!highest || allocated(*span.extremes.most_allocated) > allocated(*highest)) {
      group.highest = span;
    }
    group.stays_bytes += span.stays_bytes();
    group.most_temporary_bytes = std::max(group.most_temporary_bytes, span.temporary_bytes());
  }

  [[nodiscard]] std::vector<StageGroup>& groups() { return groups_; }

 private:
  std::vector<StageGroup> groups_;
  std::map<std::pair<StageSource, std::string>, std::size_t> places_;
};

struct OpenSpan {
  std::size_t group = 0;
  StageSpan span;
  std::string name;
  StageSource source = StageSource::kNobody;
  std::uint32_t thread = 0;
  std::uint64_t failures = 0;              // that came in it,
  std::vector<std::size_t> kept_failures;  // and which of those that are kept
};

/// Stages that are open, the earliest first. Only the newest is told of events; one that closes
/// hands on what it saw to the one in front of it, which was open all the while. So the cost of an
/// event does not depend on how many there are.
class OpenSpans {
 public:
  [[nodiscard]] bool is_empty() const { return spans_.empty(); }
  [[nodiscard]] std::vector<OpenSpan>& all() { return spans_; }
  void open(OpenSpan span) { spans_.push_back(std::move(span)); }
  void take(EventIndex event, const CourseLevels& levels) {
    if (!spans_.empty()) spans_.back().span.extremes.take(event, levels);
  }

  [[nodiscard]] OpenSpan close(std::size_t place) {
    OpenSpan closed = std::move(spans_[place]);
    if (place > 0) spans_[place - 1].span.extremes.take(closed.span.extremes);
    spans_.erase(spans_.begin() + static_cast<std::ptrdiff_t>(place));
    for (std::size_t later = place; later < spans_.size(); ++later)
      closed.span.extremes.take(spans_[later].span.extremes);
    return closed;
  }

 private:
  std::vector<OpenSpan> spans_;
};

class StageWalk final : public model::CourseListener {
 public:
  void begin(EventIndex event,
             const CourseLevels& levels,
             const model::StateSource& /*state*/) override {
    now_ = {event, levels};
    is_known_ = true;
    if (stages_.is_empty()) open_outside(has_begun_ ? kBetween : kBefore);
    if (!has_begun_) points_.open(opened("before the first mark", StageSource::kNobody, marks_));
    has_begun_ = true;
    // What was opened where the heap was not known sees it from here on.
    stages_.take(event, levels);
    points_.take(event, levels);
  }

  void step(const model::CourseStep& step, const CourseLevels& levels) override {
    now_ = {step.event, levels};
    stages_.take(step.event, levels);
    points_.take(step.event, levels);
    if (step.kind == model::CourseKind::kFailure) note_failure(step);
  }

  void mark(const CourseMark& mark) override {
    now_.event = std::max(now_.event, mark.event);
    const StageSource source =
        mark.is_annotation ? StageSource::kAnnotation : StageSource::kProgram;
    if (mark.phase == MarkPhase::kPoint) return take_point(mark);
    has_program_stages_ |= !mark.is_annotation;
    has_annotations_ |= mark.is_annotation;
    if (mark.phase == MarkPhase::kBegin) return open_stage(mark, source);
    auto& open = stages_.all();
    const auto is_its_begin = [&](const OpenSpan& span) {
      return span.source == source && span.thread == mark.thread && span.name == mark.name;
    };
    const auto found = std::find_if(open.rbegin(), open.rend(), is_its_begin);
    if (found == open.rend()) {
      ++found_.unmatched_ends;
      return;
    }
    close_stage(static_cast<std::size_t>(std::prev(found.base()) - open.begin()), mark.time_us);
    if (stages_.is_empty()) open_outside(kBetween);
  }

  void lose(EventIndex event, bool marks_are_missing) override {
    now_.event = event;
    is_known_ = false;
    ++found_.gaps;
    for (OpenSpan& each : stages_.all())
      each.span.is_known = false;
    for (OpenSpan& each : points_.all())
      each.span.is_known = false;
    while (marks_are_missing && !stages_.is_empty())
      end_stage();
  }

  [[nodiscard]] StageMemory finish() {
    const bool has_stages = has_program_stages_ || has_annotations_;
    auto& open = stages_.all();
    const bool is_outside = open.size() == 1 && open.front().source == StageSource::kNobody;
    // Nothing said what follows, so that the recording's end is this one's, too.
    if (is_outside) {
      if (has_stages) {
        open.front().group = groups_.find(kAfter, StageSource::kNobody);
      }
      close_stage(0, model::kNoTime);
    }
    while (!stages_.is_empty())
      end_stage();
    while (!points_.is_empty())
      end_point();
    choose_groups();
    return std::move(found_);
  }

 private:
  [[nodiscard]] OpenSpan opened(std::string_view name, StageSource source, GroupTable& groups) {
    OpenSpan span;
    span.group = groups.find(name, source);
    span.name = name;
    span.source = source;
    span.span.begin = now_;
    span.span.is_known = is_known_;
    if (is_known_) span.span.extremes.take(now_.event, now_.levels);
    return span;
  }

  void open_outside(const char* name) { stages_.open(opened(name, StageSource::kNobody, groups_)); }

  void open_stage(const CourseMark& mark, StageSource source) {
    auto& open = stages_.all();
    if (open.size() == kMostOpen) return;
    if (open.size() == 1 && open.front().source == StageSource::kNobody) {
      close_stage(0, mark.time_us);
    }
    OpenSpan span = opened(mark.name, source, groups_);
    span.thread = mark.thread;
    span.span.begin_us = mark.time_us;
    stages_.open(std::move(span));
  }

  void close_stage(std::size_t place, std::int64_t time_us) {
    OpenSpan closed = stages_.close(place);
    closed.span.end = now_;
    closed.span.end_us = time_us;
    closed.span.has_end = true;
    // Stages that follow each other at once have nothing between them.
    const bool is_nothing =
        closed.source == StageSource::kNobody &&
        closed.span.begin.levels == closed.span.end.levels && closed.span.extremes.most_allocated &&
        allocated(*closed.span.extremes.most_allocated) == allocated(closed.span.end);
    const bool counts = !is_nothing || closed.name == kBefore || closed.failures > 0;
    if (counts) add(closed, groups_, stages_of_failures_);
  }

  /// Of the newest, without an end of its own.
  void end_stage() {
    OpenSpan closed = stages_.close(stages_.all().size() - 1);
    closed.span.end = now_;
    add(closed, groups_, stages_of_failures_);
  }

  void end_point() {
    OpenSpan closed = points_.close(points_.all().size() - 1);
    closed.span.end = now_;
    add(closed, marks_, marks_of_failures_);
  }

  // Only now is known which group a stage belongs to: what lies behind the last one has its own.
  static void add(const OpenSpan& closed,
                  GroupTable& groups,
                  std::vector<std::size_t>& groups_of_failures) {
    groups.add(closed.group, closed.span);
    groups.groups()[closed.group].failures += closed.failures;
    for (const std::size_t failure : closed.kept_failures)
      groups_of_failures[failure] = closed.group;
  }

  void take_point(const CourseMark& mark) {
    if (mark.is_annotation) return;
    ++found_.point_count;
    if (found_.points.size() < kKeptPoints) {
      found_.points.push_back(
          {std::string(mark.name), mark.time_us, is_known_ ? std::optional(now_) : std::nullopt});
    }
    if (!points_.is_empty()) {
      OpenSpan& open = points_.all().back();
      open.span.has_end = true;
      open.span.end_us = mark.time_us;
      end_point();
    }
    OpenSpan span = opened(mark.name, StageSource::kPoint, marks_);
    span.thread = mark.thread;
    span.span.begin_us = mark.time_us;
    points_.open(std::move(span));
  }

  void note_failure(const model::CourseStep& step) {
    ++found_.failure_count;
    auto& open = stages_.all();
    const auto is_of_thread = [&](const OpenSpan& span) {
      return span.source != StageSource::kNobody && span.thread == step.thread;
    };
    const auto found = std::find_if(open.rbegin(), open.rend(), is_of_thread);
    const bool is_kept = found_.failures.size() < kKeptStageFailures;
    const auto note_in = [&](OpenSpan& span) {
      ++span.failures;
      if (is_kept) span.kept_failures.push_back(found_.failures.size());
    };
    if (!open.empty()) note_in(found != open.rend() ? *found : open.back());
    if (!points_.is_empty()) note_in(points_.all().back());
    if (!is_kept) return;
    found_.failures.push_back({step.event, step.requested_bytes, 0, found != open.rend()});
    stages_of_failures_.push_back(0);
    marks_of_failures_.push_back(0);
  }

  // Marks without an end are stages only where the program gives none that have one.
  void choose_groups() {
    const bool are_points = !has_program_stages_ && found_.point_count > 0;
    found_.has_stages = has_program_stages_ || has_annotations_ || are_points;
    std::vector<StageGroup>& chosen = are_points ? marks_.groups() : groups_.groups();
    for (std::size_t i = 0; i < found_.failures.size(); ++i)
      found_.failures[i].group = (are_points ? marks_of_failures_ : stages_of_failures_)[i];
    if (are_points) {
      found_.points.clear();
      for (StageGroup& group : groups_.groups())
        if (group.source == StageSource::kAnnotation) chosen.push_back(std::move(group));
    }
    if (!found_.has_stages && !chosen.empty()) chosen.front().name = "the whole recording";
    sort_groups(chosen);
  }

  // By their first begin; failures refer to them.
  void sort_groups(std::vector<StageGroup>& groups) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (groups[i].count > 0) order.push_back(i);
    std::ranges::stable_sort(
        order, {}, [&groups](std::size_t i) { return groups[i].first.begin.event; });
    std::vector<std::size_t> place_of(groups.size(), 0);
    for (std::size_t place = 0; place < order.size(); ++place) {
      place_of[order[place]] = place;
      found_.groups.push_back(std::move(groups[order[place]]));
    }
    for (StageFailure& failure : found_.failures)
      failure.group = place_of[failure.group];
  }

  StageMemory found_;
  GroupTable groups_;
  GroupTable marks_;
  OpenSpans stages_;
  OpenSpans points_;                             // at most one: from a mark to the next
  std::vector<std::size_t> stages_of_failures_;  // the group of each that is kept, in groups_
  std::vector<std::size_t> marks_of_failures_;   // and in marks_
  Moment now_;
  bool is_known_ = false;
  bool has_begun_ = false;
  bool has_program_stages_ = false;
  bool has_annotations_ = false;
};

using BytesByStack = absl::flat_hash_map<model::StackId, std::uint64_t>;

class StackWalk {
 public:
  StackWalk(const model::History& history, std::vector<StageGroup>& groups)
      : history_(history)
      , groups_(groups) {}

  void run() {
    choose();
    std::vector<EventIndex> targets;
    for (const std::size_t place : chosen_) {
      for (const Moment* moment : moments_of(groups_[place].highest))
        states_.try_emplace(target_of(*moment));
    }
    targets.reserve(states_.size());
    for (const auto& [target, state] : states_)
      targets.push_back(target);
    history_.visit_states_until(targets, [this](EventIndex target, model::HeapState& heap) {
      for (const verdict::Holder& holder : verdict::find_holders(heap))
        states_[target][holder.stack] += holder.bytes;
      return true;
    });
    for (const std::size_t place : chosen_)
      compare(groups_[place]);
  }

 private:
  static std::array<const Moment*, 3> moments_of(const StageSpan& span) {
    return {&span.begin, &*span.extremes.most_allocated, &span.end};
  }

  /// The state behind an event is the one before the next.
  [[nodiscard]] EventIndex target_of(const Moment& moment) const {
    return std::clamp(moment.event + 1, history_.first_event(), history_.end_event());
  }

  void choose() {
    const auto moved = [this](std::size_t place) {
      const StageSpan& span = groups_[place].highest;
      if (!span.is_known || !span.extremes.most_allocated) return std::uint64_t{0};
      const auto stays = static_cast<std::uint64_t>(std::max<std::int64_t>(span.stays_bytes(), 0));
      return std::max(span.temporary_bytes(), stays);
    };
    for (std::size_t place = 0; place < groups_.size(); ++place) {
      const StageSpan& span = groups_[place].highest;
      if (moved(place) == 0) continue;
      const bool is_known = std::ranges::all_of(moments_of(span), [this](const Moment* moment) {
        return history_.is_known_before(target_of(*moment));
      });
      if (is_known) chosen_.push_back(place);
    }
    std::ranges::stable_sort(chosen_, std::greater<>{}, moved);
    chosen_.resize(std::min(chosen_.size(), kGroupsWithStacks));
  }

  void compare(StageGroup& group) {
    const auto moments = moments_of(group.highest);
    const BytesByStack& begin = states_[target_of(*moments[0])];
    const BytesByStack& peak = states_[target_of(*moments[1])];
    const BytesByStack& end = states_[target_of(*moments[2])];
    const auto bytes_in = [](const BytesByStack& state, model::StackId stack) {
      const auto found = state.find(stack);
      return found == state.end() ? 0 : found->second;
    };
    for (const auto& [stack, bytes] : peak) {
      const StackChange change{stack, bytes_in(begin, stack), bytes, bytes_in(end, stack)};
      if (bytes > std::max(change.begin_bytes, change.end_bytes)) group.temporary.push_back(change);
    }
    for (const auto& [stack, bytes] : end) {
      const StackChange change{stack, bytes_in(begin, stack), bytes_in(peak, stack), bytes};
      if (bytes > change.begin_bytes) group.stays.push_back(change);
    }
    keep_largest(group.temporary, [](const StackChange& change) {
      return change.peak_bytes - std::max(change.begin_bytes, change.end_bytes);
    });
    keep_largest(group.stays,
                 [](const StackChange& change) { return change.end_bytes - change.begin_bytes; });
  }

  template <class Size>
  static void keep_largest(std::vector<StackChange>& changes, Size size) {
    std::ranges::sort(changes, {}, [&size](const StackChange& change) {
      return std::pair{~size(change), model::index_of(change.stack)};
    });
    changes.resize(std::min(changes.size(), kKeptStacks));
  }

  const model::History& history_;
  std::vector<StageGroup>& groups_;
  std::vector<std::size_t> chosen_;
  std::map<EventIndex, BytesByStack> states_;  // by the event that comes next
};

}  // namespace

std::int64_t StageSpan::stays_bytes() const {
  return signed_of(allocated(end)) - signed_of(allocated(begin));
}

std::uint64_t StageSpan::temporary_bytes() const {
  if (!extremes.most_allocated) return 0;
  const std::uint64_t peak = allocated(*extremes.most_allocated);
  return peak - std::min(peak, std::max(allocated(begin), allocated(end)));
}

StageMemory find_stages(const model::History& history) {
  StageWalk walk;
  history.walk(walk);
  StageMemory found = walk.finish();
  StackWalk(history, found.groups).run();
  return found;
}

}  // namespace fragscope::course
