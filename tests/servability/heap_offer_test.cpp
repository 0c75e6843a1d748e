// SPDX-License-Identifier: Apache-2.0
// What the walk says at every event must be what the verdict's ladder says of the state there,
// which is found by another way: a pass over all blocks.
#include "analyzer/servability/heap_offer.hpp"

#include "analyzer/model/timeline.hpp"
#include "analyzer/verdict/ladder.hpp"
#include "analyzer/verdict/supply.hpp"
#include "tests/model/toy_allocator.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::servability {
namespace {

using model::EventIndex;
using model::HeapState;
using policy::kMiB;

struct Program {
  std::string name;
  policy::SizeRules rules;
};

void PrintTo(const Program& program, std::ostream* out) {
  *out << program.name;
}

Program expandable(std::string name, std::uint64_t page) {
  Program program{std::move(name), {}};
  program.rules.expandable_segments = true;
  program.rules.large_segment_size = page;
  return program;
}
Program oversize() {
  Program program{"oversize", {}};
  program.rules.max_split_size = 40 * kMiB;
  return program;
}

/// Calls `see` behind each event.
class OfferWalk final : public model::CourseListener {
 public:
  using See = std::function<void(EventIndex, const HeapOffer&)>;
  OfferWalk(const policy::SizeRules& rules, See see)
      : offer_(rules)
      , see_(std::move(see)) {}

  void begin(EventIndex event,
             const model::CourseLevels& levels,
             const model::StateSource& state) override {
    offer_.begin(state(), levels);
    see_(event, offer_);
  }
  void step(const model::CourseStep& step, const model::CourseLevels& levels) override {
    offer_.step(step, levels);
    see_(step.event, offer_);
  }
  void mark(const model::CourseMark& /*mark*/) override {}
  void lose(EventIndex /*event*/, bool /*marks_are_missing*/) override { FAIL(); }

 private:
  HeapOffer offer_;
  See see_;
};

/// By the ladder: whether one of the rungs 1 to 3 serves the request.
bool ladder_serves(const HeapState& state,
                   const Request& request,
                   const DriverRoom& room,
                   const policy::SizeRules& rules) {
  verdict::Question question;
  question.size_bytes = request.size_bytes;
  question.stream = request.stream;
  question.pool = request.pool;
  std::uint64_t reserved = 0;
  for (const model::HeapSegment& segment : state.segments)
    reserved += segment.size_bytes;
  verdict::DeviceFacts facts;
  facts.free = {model::exactly(room.free_with(reserved)), "the test"};
  if (room.limit_bytes) facts.limit = {model::exactly(*room.limit_bytes), "the test"};
  const verdict::Supply supply = verdict::find_supply(state, question, rules);
  const verdict::Judgement judged = verdict::judge(question, supply, std::nullopt, facts, rules);
  EXPECT_NE(judged.ladder[2].fits, verdict::Fits::kUnknown);
  return judged.ladder[2].fits == verdict::Fits::kYes;
}

/// With the pool of every segment, as PyTorch names it from 2.12 on.
model::Recording recording_of(const model::ToyAllocator& toy) {
  model::Recording recording = toy.recording(0);
  for (model::Event& event : recording.events)
    event.pool = model::kDefaultPool;
  return recording;
}

class HeapOfferAgrees : public ::testing::TestWithParam<Program> {
 protected:
  [[nodiscard]] static Request random_request(std::mt19937& random) {
    constexpr std::uint64_t kUnits[] = {
        512, 1536, std::uint64_t{700} * 1024, kMiB, 3 * kMiB, 11 * kMiB};
    const std::uint64_t unit = kUnits[random() % std::size(kUnits)];
    return {policy::round_size(unit * (1 + random() % 9), GetParam().rules),
            model::kDefaultPool,
            static_cast<std::int64_t>(random() % 3)};
  }
};

TEST_P(HeapOfferAgrees, WithTheLadderAtEveryEvent) {
  const policy::SizeRules& rules = GetParam().rules;
  std::uint64_t yes = 0;
  std::uint64_t no = 0;
  for (std::uint32_t seed = 1; seed <= 25 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    model::ToyAllocator toy(rules, seed);
    for (int step = 0; step < 300; ++step)
      toy.step();
    const model::Recording recording = recording_of(toy);
    const model::Timeline timeline(recording, 0, model::RoundingRule::kCuda);
    std::vector<EventIndex> targets;
    for (EventIndex target = 0; target <= timeline.end_event(); ++target)
      targets.push_back(target);
    std::vector<HeapState> states;
    timeline.visit_states_until(targets, [&states](EventIndex, HeapState& state) {
      states.push_back(std::move(state));
      return true;
    });

    std::mt19937 random(seed);
    OfferWalk walk(rules, [&](EventIndex event, const HeapOffer& offer) {
      if (::testing::Test::HasFailure()) return;
      const HeapState& state = states[static_cast<std::size_t>(event + 1)];
      for (int i = 0; i < 4; ++i) {
        const Request request = random_request(random);
        DriverRoom room{random() % (64 * kMiB), 0, std::nullopt};
        if (random() % 4 == 0) room.limit_bytes = random() % (400 * kMiB);
        room.reserved_bytes = random() % (200 * kMiB);
        const bool is_served = offer.server_of(request, room) != Server::kNobody;
        ASSERT_EQ(is_served, ladder_serves(state, request, room, rules))
            << "behind event " << event << ": " << request.size_bytes << " on stream "
            << request.stream << ", free " << room.free_bytes << " at " << room.reserved_bytes;
        ++(is_served ? yes : no);
      }
    });
    timeline.walk(walk);
  }
  // Both answers came often.
  EXPECT_GT(yes, 1000U);
  EXPECT_GT(no, 1000U);
}

TEST_P(HeapOfferAgrees, TheLargestServedIsServedAndNoneLarger) {
  const policy::SizeRules& rules = GetParam().rules;
  for (std::uint32_t seed = 1; seed <= 25 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    model::ToyAllocator toy(rules, seed);
    for (int step = 0; step < 200; ++step)
      toy.step();
    const model::Recording recording = recording_of(toy);
    const model::Timeline timeline(recording, 0, model::RoundingRule::kCuda);
    std::mt19937 random(seed);
    OfferWalk walk(rules, [&](EventIndex event, const HeapOffer& offer) {
      Request request = random_request(random);
      const model::SizeClass size_class = request.size_class();
      const DriverRoom room{random() % (64 * kMiB), 0, std::nullopt};
      request.size_bytes = offer.largest_served_bytes(request, room);
      const bool is_of_class = request.size_bytes > 0 && request.size_class() == size_class;
      // Oversize rules are left aside.
      if (is_of_class && rules.max_split_size == policy::kUnlimited) {
        EXPECT_NE(offer.server_of(request, room), Server::kNobody) << "behind event " << event;
      }
      request.size_bytes += policy::page_size(size_class, rules) + kMiB;
      if (request.size_class() != size_class || rules.expandable_segments) return;
      EXPECT_EQ(offer.server_of(request, room), Server::kNobody) << "behind event " << event;
    });
    timeline.walk(walk);
  }
}

INSTANTIATE_TEST_SUITE_P(Programs,
                         HeapOfferAgrees,
                         ::testing::Values(Program{"plain", {}},
                                           expandable("expandable", 20 * kMiB),
                                           expandable("small_pages", 2 * kMiB),
                                           oversize()),
                         [](const auto& program) { return program.param.name; });

}  // namespace
}  // namespace fragscope::servability
