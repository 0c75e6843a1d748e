// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/moment.hpp"

#include "analyzer/servability/heap_offer.hpp"

#include <set>

namespace fragscope::servability {

using model::CourseKind;
using model::CourseStep;
using model::EventIndex;

namespace {

std::vector<model::Home> homes_of(std::span<const Watch> watches) {
  std::set<model::Home> homes;
  for (const Watch& watch : watches) {
    homes.insert(watch.request.home(false));
    homes.insert(watch.request.home(true));
  }
  return {homes.begin(), homes.end()};
}

class MomentWalk final : public model::CourseListener {
 public:
  MomentWalk(std::span<const Watch> watches, const policy::SizeRules& rules)
      : offer_(rules, homes_of(watches))
      , moments_(watches.size()) {
    answers_.reserve(watches.size());
    for (const Watch& watch : watches)
      answers_.emplace_back(watch);
  }

  void begin(EventIndex event,
             const model::CourseLevels& levels,
             const model::StateSource& state) override {
    offer_.begin(state(), levels);
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      if (event >= answers_[i].watch().until) continue;
      answers_[i].begin(event, offer_);
      moments_[i] = {.known_from = event,
                     .first = answers_[i].now(),
                     .last = answers_[i].now(),
                     .turn_count = 0,
                     .to_no = std::nullopt};
    }
  }

  void step(const CourseStep& step, const model::CourseLevels& levels) override {
    offer_.step(step, levels);
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      if (step.event >= answers_[i].watch().until) continue;
      const std::optional<Turn> turn = answers_[i].step(step, offer_);
      moments_[i].last = answers_[i].now();
      if (!turn) continue;
      ++moments_[i].turn_count;
      moments_[i].to_no = turn->is_to_no() ? turn : std::nullopt;
    }
  }

  void mark(const model::CourseMark& /*mark*/) override {}

  void lose(EventIndex event, bool /*marks_are_missing*/) override {
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      if (event >= answers_[i].watch().until) continue;
      answers_[i].lose();
      moments_[i] = {};
    }
  }

  [[nodiscard]] std::vector<Moment> take() { return std::move(moments_); }

 private:
  HeapOffer offer_;
  std::vector<AnswerWatch> answers_;
  std::vector<Moment> moments_;
};

}  // namespace

void AnswerWatch::begin(EventIndex event, const HeapOffer& offer) {
  known_from_ = event;
  came_.reset();
  note(offer);
  first_ = now_;
}

void AnswerWatch::lose() {
  known_from_.reset();
  came_.reset();
}

void AnswerWatch::note(const HeapOffer& offer) {
  now_ = offer.server_of(watch_.request, watch_.room);
  run_bytes_ = offer.largest_run_bytes(watch_.request);
  driver_bytes_ = offer.driver_bytes(watch_.room);
}

std::optional<Turn> AnswerWatch::step(const CourseStep& step, const HeapOffer& offer) {
  if (!known_from_) return std::nullopt;
  if (step.kind == CourseKind::kDevice && step.comes) {
    if (!came_) came_ = step;
    return std::nullopt;
  }
  Turn turn{now_, Server::kNobody, step, run_bytes_, driver_bytes_};
  if (came_ && step.kind != CourseKind::kAlloc) turn.cause = *came_;
  came_.reset();
  note(offer);
  turn.after = now_;
  const bool was_yes = turn.before != Server::kNobody;
  return was_yes == turn.is_to_no() ? std::optional(turn) : std::nullopt;
}

std::vector<Moment> find_moments(const model::History& history,
                                 std::span<const Watch> watches,
                                 const policy::SizeRules& rules) {
  MomentWalk walk(watches, rules);
  history.walk(walk);
  return walk.take();
}

}  // namespace fragscope::servability
