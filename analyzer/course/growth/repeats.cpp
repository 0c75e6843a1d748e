// SPDX-License-Identifier: Apache-2.0
#include "analyzer/course/growth/repeats.hpp"

#include "analyzer/course/growth/period.hpp"
#include "analyzer/course/mark_names.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

namespace fragscope::course {
namespace {

using model::CourseLevels;
using model::CourseMark;
using model::CourseStep;
using model::EventIndex;
using model::MarkPhase;

/// Repeats that are under way at once; more are not followed.
constexpr std::size_t kMostOpen = 64;

RepeatBasis basis_of(const CourseMark& mark) {
  if (mark.is_annotation) return RepeatBasis::kAnnotations;
  return mark.phase == MarkPhase::kPoint ? RepeatBasis::kMarks : RepeatBasis::kStages;
}

/// The first pass: which names there are.
class NameWalk final : public model::CourseListener {
 public:
  void begin(EventIndex /*event*/,
             const CourseLevels& /*levels*/,
             const model::StateSource& /*state*/) override {}
  void step(const CourseStep& step, const CourseLevels& /*levels*/) override {
    if (step.kind == model::CourseKind::kAlloc) period_.take(step);
  }
  void mark(const CourseMark& mark) override {
    if (mark.phase == MarkPhase::kEnd) return;
    auto key = std::pair{basis_of(mark), without_numbers(mark.name)};
    if (names_.size() >= kMostMarkNames && !names_.contains(key)) return;
    ++names_[std::move(key)];
  }
  void lose(EventIndex /*event*/, bool /*marks_are_missing*/) override {}

  [[nodiscard]] std::vector<MarkName> names() const {
    std::vector<MarkName> list;
    list.reserve(names_.size());
    for (const auto& [key, count] : names_)
      list.push_back({key.second, key.first, count});
    std::ranges::stable_sort(list, {}, [](const MarkName& name) {
      return std::pair{name.basis, ~name.count};
    });
    return list;
  }
  [[nodiscard]] std::optional<Period> period() const { return period_.find(); }

 private:
  std::map<std::pair<RepeatBasis, std::string>, std::uint64_t> names_;
  PeriodSearch period_;
};

/// The second pass: the repeats themselves.
class RepeatWalk final : public model::CourseListener {
 public:
  RepeatWalk(const Repeats& found, std::vector<Repeat>& repeats, std::uint64_t& overlapping)
      : found_(found)
      , repeats_(repeats)
      , overlapping_(overlapping) {}

  void begin(EventIndex event,
             const CourseLevels& levels,
             const model::StateSource& /*state*/) override {
    now_ = {event, levels};
    is_known_ = true;
  }

  void step(const CourseStep& step, const CourseLevels& levels) override {
    const bool is_anchor = found_.period && step.kind == model::CourseKind::kAlloc &&
                           is_of_period(*found_.period, step);
    if (is_anchor) {
      end_point(now_);
      open("", 0);
    }
    now_ = {step.event, levels};
    for (Open& each : open_) {
      each.repeat.extremes.take(step.event, levels);
      each.repeat.failures += step.kind == model::CourseKind::kFailure ? 1U : 0U;
    }
  }

  void mark(const CourseMark& mark) override {
    now_.event = std::max(now_.event, mark.event);
    if (found_.period || basis_of(mark) != found_.basis) return;
    if (without_numbers(mark.name) != found_.name) {
      if (found_.basis == RepeatBasis::kMarks) note_other(mark.name);
      return;
    }
    if (mark.phase == MarkPhase::kEnd) return end_stage(mark);
    if (mark.phase == MarkPhase::kPoint) end_point(now_);
    open(mark.name, mark.thread);
  }

  void lose(EventIndex event, bool marks_are_missing) override {
    now_.event = event;
    is_known_ = false;
    for (Open& each : open_)
      each.repeat.is_known = false;
    if (!marks_are_missing) return;
    for (Open& each : open_)
      keep(std::move(each));
    open_.clear();
    if_last_.reset();
  }

  void finish() {
    for (Open& each : open_) {
      const bool has_other_end = if_last_ && found_.basis == RepeatBasis::kMarks;
      keep(has_other_end ? std::move(*if_last_) : std::move(each));
    }
    std::ranges::stable_sort(repeats_, {}, [](const Repeat& repeat) { return repeat.begin.event; });
  }

 private:
  struct Open {
    Repeat repeat;
    std::uint32_t thread = 0;
  };

  void open(std::string_view name, std::uint32_t thread) {
    overlapping_ += open_.empty() ? 0U : 1U;
    if (open_.size() == kMostOpen) return;
    Open& opened = open_.emplace_back();
    opened.thread = thread;
    opened.repeat.name = name;
    opened.repeat.begin = now_;
    opened.repeat.is_known = is_known_;
    if (is_known_) opened.repeat.extremes.take(now_.event, now_.levels);
  }

  void keep(Open&& ended) {
    if (!ended.repeat.has_end) ended.repeat.end = now_;
    repeats_.push_back(std::move(ended.repeat));
  }

  void end_stage(const CourseMark& mark) {
    const auto is_its_begin = [&mark](const Open& each) {
      return each.thread == mark.thread && each.repeat.name == mark.name;
    };
    const auto found = std::find_if(open_.rbegin(), open_.rend(), is_its_begin);
    if (found == open_.rend()) return;
    found->repeat.end = now_;
    found->repeat.has_end = true;
    keep(std::move(*found));
    open_.erase(std::next(found).base());
  }

  void end_point(const Moment& end) {
    if (if_last_) names_within_.insert(name_if_last_);
    if_last_.reset();
    if (open_.empty()) return;
    open_.back().repeat.end = end;
    open_.back().repeat.has_end = true;
    keep(std::move(open_.back()));
    open_.pop_back();
  }

  // A mark of another name may be one within the repeat; behind the last one, where none of the
  // others had it, it is the end of that.
  void note_other(std::string_view name) {
    std::string folded = without_numbers(name);
    if (open_.empty() || if_last_ || names_within_.contains(folded)) return;
    if (names_within_.size() >= kMostMarkNames) return;
    name_if_last_ = std::move(folded);
    if_last_ = open_.back();
    if_last_->repeat.end = now_;
    if_last_->repeat.has_end = true;
  }

  const Repeats& found_;
  std::vector<Repeat>& repeats_;
  std::uint64_t& overlapping_;
  std::vector<Open> open_;
  std::set<std::string> names_within_;
  std::optional<Open> if_last_;
  std::string name_if_last_;
  Moment now_;
  bool is_known_ = false;
};

std::optional<std::uint64_t> last_number(std::string_view name) {
  const auto end = name.find_last_of("0123456789");
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9')
    --begin;
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(name.data() + begin, name.data() + end + 1, number);
  if (error != std::errc{} || stop != name.data() + end + 1) return std::nullopt;
  return number;
}

void choose(const RepeatChoice& choice, Repeats& found) {
  for (const MarkName& name : found.names) {
    const bool is_wanted =
        choice.name.empty() ? name.count > 1 : name.name == without_numbers(choice.name);
    if (!is_wanted) continue;
    found.basis = name.basis;
    found.name = name.name;
    return;
  }
}

void check_order(Repeats& found) {
  std::optional<std::uint64_t> before;
  for (const Repeat& repeat : found.all) {
    const auto number = last_number(repeat.name);
    if (number && before && *number < *before) found.is_out_of_order = true;
    if (number) before = number;
  }
}

}  // namespace

Repeats find_repeats(const model::History& history, const RepeatChoice& choice) {
  Repeats found;
  found.was_period_wanted = choice.by_period;
  {
    NameWalk walk;
    history.walk(walk);
    found.names = walk.names();
    if (choice.by_period) found.period = walk.period();
  }
  if (choice.by_period) {
    found.basis = found.period ? RepeatBasis::kPeriod : RepeatBasis::kNone;
  } else {
    choose(choice, found);
  }
  if (found.basis == RepeatBasis::kNone) return found;
  std::vector<Repeat> repeats;
  RepeatWalk walk(found, repeats, found.overlapping);
  history.walk(walk);
  walk.finish();
  if (repeats.size() > kMostRepeats) {
    found.not_kept = repeats.size() - kMostRepeats;
    repeats.resize(kMostRepeats);
  }
  found.all = std::move(repeats);
  check_order(found);
  return found;
}

}  // namespace fragscope::course
