// SPDX-License-Identifier: Apache-2.0
// The walk that `analyze` and `timeline` use and the scans of `kernels/` answer the same question
// by different ways: event by event, and over all blocks of all events at once. They must agree.
#include "analyzer/model/timeline.hpp"
#include "analyzer/servability/heap_offer.hpp"
#include "kernels/block_table.hpp"
#include "kernels/scans.hpp"
#include "tests/model/toy_allocator.hpp"
#include "tests/support/result_matchers.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace fragscope::servability {
namespace {

using kernels::PackedBlock;
using model::EventIndex;
using model::HeapState;
using model::Home;

/// Every home at every event as a group of a table.
class HomesOfEvents {
 public:
  void add(const HeapState& state) {
    std::map<Home, std::vector<PackedBlock>> homes;
    for (const model::HeapSegment& segment : state.segments) {
      std::vector<PackedBlock>& blocks = homes[segment.home];
      const std::size_t first = blocks.size();
      for (const model::HeapBlock& block : state.blocks_of(segment)) {
        blocks.push_back(block.state == model::BlockState::kFree
                             ? PackedBlock::free(block.size_bytes)
                             : PackedBlock::live(block.size_bytes));
      }
      blocks[first] = blocks[first].as_first();
    }
    for (const auto& [home, blocks] : homes) {
      blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
      begins_.push_back(blocks_.size());
      groups_.emplace_back(event_, home);
    }
    ++event_;
  }

  [[nodiscard]] kernels::BlockTable table() const { return {blocks_, begins_}; }
  /// The event behind which a group stands, and its home.
  [[nodiscard]] const std::vector<std::pair<EventIndex, Home>>& groups() const { return groups_; }

 private:
  EventIndex event_ = model::kBeforeFirst;
  std::vector<PackedBlock> blocks_;
  std::vector<std::uint64_t> begins_{0};
  std::vector<std::pair<EventIndex, Home>> groups_;
};

/// What the walk has behind each event.
struct Offered {
  struct OfHome {
    std::uint64_t free_bytes = 0;
    std::uint64_t largest_bytes = 0;
  };
  std::map<Home, OfHome> homes;
  std::uint64_t releasable_bytes = 0;
};

class OfferWalk final : public model::CourseListener {
 public:
  explicit OfferWalk(const policy::SizeRules& rules)
      : offer_(rules) {}

  void begin(EventIndex event,
             const model::CourseLevels& levels,
             const model::StateSource& state) override {
    offer_.begin(state(), levels);
    note(event);
  }
  void step(const model::CourseStep& step, const model::CourseLevels& levels) override {
    offer_.step(step, levels);
    note(step.event);
  }
  void mark(const model::CourseMark& /*mark*/) override {}
  void lose(EventIndex /*event*/, bool /*marks_are_missing*/) override { FAIL(); }

  std::map<EventIndex, Offered> offered;

 private:
  void note(EventIndex event) {
    Offered& now = offered[event];
    now.releasable_bytes = offer_.runs().releasable_bytes();
    for (const auto& [home, runs] : offer_.runs().homes())
      now.homes[home] = {runs.free_bytes(), runs.largest_bytes()};
  }

  HeapOffer offer_;
};

class KernelsAgree : public ::testing::TestWithParam<bool> {};

TEST_P(KernelsAgree, WithTheWalkAtEveryEventAndHome) {
  policy::SizeRules rules;
  rules.expandable_segments = GetParam();
  std::size_t compared = 0;
  for (std::uint32_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    model::ToyAllocator toy(rules, seed);
    for (int step = 0; step < 300; ++step)
      toy.step();
    const model::Recording recording = toy.recording(0);
    const model::Timeline timeline(recording, 0, model::RoundingRule::kCuda);
    std::vector<EventIndex> targets;
    for (EventIndex target = 0; target <= timeline.end_event(); ++target)
      targets.push_back(target);
    HomesOfEvents homes;
    timeline.visit_states_until(targets, [&homes](EventIndex, const HeapState& state) {
      homes.add(state);
      return true;
    });
    OfferWalk walk(rules);
    timeline.walk(walk);

    ASSERT_THAT(kernels::check_table(homes.table()), test::IsOk());
    const auto runs = kernels::find_runs(homes.table(), false);
    ASSERT_THAT(runs, test::IsOk());
    std::map<EventIndex, std::uint64_t> whole_bytes;
    for (std::size_t group = 0; group < homes.groups().size(); ++group) {
      const auto& [event, home] = homes.groups()[group];
      const Offered::OfHome& offered = walk.offered.at(event).homes[home];
      ASSERT_EQ(runs->groups[group].free_bytes, offered.free_bytes) << "behind event " << event;
      ASSERT_EQ(runs->groups[group].largest_run_bytes, offered.largest_bytes) << "behind " << event;
      whole_bytes[event] += runs->groups[group].free_segment_bytes;
      ++compared;
    }
    // Of an expandable segment pages can go back, not only all of it.
    if (rules.expandable_segments) continue;
    for (const auto& [event, bytes] : whole_bytes)
      ASSERT_EQ(bytes, walk.offered.at(event).releasable_bytes) << "behind event " << event;
  }
  EXPECT_GT(compared, 10'000U);
}

INSTANTIATE_TEST_SUITE_P(Segments, KernelsAgree, ::testing::Bool(), [](const auto& expandable) {
  return expandable.param ? "expandable" : "plain";
});

}  // namespace
}  // namespace fragscope::servability
