// SPDX-License-Identifier: Apache-2.0
// Random programs on a model of the allocator: what `Timeline` rebuilds from the recording must be
// what the model had, at every event. Where the beginning of the trace is missing, the truth must
// lie inside the bounds. A failure names the seed; the same seed fails again.
#include "analyzer/model/timeline.hpp"
#include "tests/model/toy_allocator.hpp"
#include "tests/support/recording_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::model {
namespace {

struct Program {
  std::string name;
  policy::SizeRules rules;
};

Program plain() {
  return {"plain", {}};
}
Program expandable() {
  Program program{"expandable", {}};
  program.rules.expandable_segments = true;
  return program;
}
Program oversize() {
  Program program{"oversize", {}};
  program.rules.max_split_size = 40 * policy::kMiB;
  return program;
}
Program roundup() {
  Program program{"roundup", {}};
  program.rules.roundup_divisions.fill(4);
  return program;
}

void PrintTo(const Program& program, std::ostream* out) {
  *out << program.name;
}

class TimelineProperty : public ::testing::TestWithParam<Program> {
 protected:
  static constexpr std::uint32_t kSeeds = 25;

  /// Runs `check` on the recording of one random program after the other.
  template <class Check>
  void for_each_seed(Check check) {
    for (std::uint32_t seed = 1; seed <= kSeeds && !HasFailure(); ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      ToyAllocator toy(rules_, seed);
      for (int step = 0; step < kSteps; ++step)
        toy.step();
      check(toy);
    }
  }

  policy::SizeRules rules_ = GetParam().rules;

 private:
  static constexpr int kSteps = 400;
};

/// The true state as one line, with all that a rebuilt state says.
std::string show_truth(const ToyState& truth) {
  std::string text;
  auto block = truth.blocks.begin();
  const auto add = [&text](char letter, std::uint64_t size) {
    text += std::string(" ") + letter + testing::show_size(size);
  };
  for (const auto& [address, segment] : truth.segments) {
    text += (text.empty() ? "@" : " @") + testing::show_size(address);
    std::uint64_t at = address;
    for (; block != truth.blocks.end() && block->first < address + segment.size_bytes; ++block) {
      if (block->first > at) add('H', block->first - at);
      add(block->second.pending ? 'P' : 'L', block->second.size_bytes);
      at = block->first + block->second.size_bytes;
    }
    if (at < address + segment.size_bytes) add('H', address + segment.size_bytes - at);
  }
  return text;
}

void expect_sums(const StateSummary& summary) {
  EXPECT_LE(summary.allocated_bytes.low, summary.active_bytes.low);
  EXPECT_LE(summary.active_bytes.high, summary.reserved_bytes);
  ASSERT_TRUE(summary.requested_bytes && summary.gap.rounding_bytes);
  EXPECT_EQ(*summary.gap.rounding_bytes + summary.gap.pending_bytes + summary.gap.releasable_bytes +
                summary.gap.stuck_bytes,
            summary.reserved_bytes - *summary.requested_bytes);
  EXPECT_EQ(summary.active_bytes.low + summary.free_bytes.high, summary.reserved_bytes);
}

void expect_tiling(const HeapState& state) {
  for (const HeapSegment& segment : state.segments) {
    std::uint64_t at = segment.address;
    bool after_hole = false;
    for (const HeapBlock& block : state.blocks_of(segment)) {
      EXPECT_EQ(block.address, at);
      EXPECT_GT(block.size_bytes, 0U);
      EXPECT_FALSE(after_hole && block.state == BlockState::kFree) << "two holes in a row";
      after_hole = block.state == BlockState::kFree;
      at += block.size_bytes;
    }
    EXPECT_EQ(at, segment.address + segment.size_bytes);
  }
  EXPECT_EQ(state.unplaced_count, 0U);
}

std::vector<EventIndex> all_targets(const Timeline& timeline) {
  std::vector<EventIndex> targets;
  for (EventIndex target = 0; target <= timeline.event_count(); ++target)
    targets.push_back(target);
  return targets;
}

void expect_homes(const HeapState& state, const ToyState& truth, bool expandable) {
  ASSERT_EQ(state.segments.size(), truth.segments.size());
  for (const HeapSegment& segment : state.segments) {
    const ToySegment& held = truth.segments.at(segment.address);
    EXPECT_EQ(segment.home.size_class, held.size_class) << testing::show_size(segment.address);
    EXPECT_EQ(segment.home.stream, held.stream);
    EXPECT_EQ(segment.home.expandable, expandable);
  }
}

void expect_every_state(const ToyAllocator& toy, const policy::SizeRules& rules) {
  const Recording recording = toy.recording(0);
  const Timeline timeline(recording, 0, RoundingRule::kCuda);

  ASSERT_EQ(toy.states().size(), recording.events.size() + 1);
  testing::visit_states(
      timeline, all_targets(timeline), [&](EventIndex target, const HeapState& state) {
        const ToyState& truth = toy.states()[static_cast<std::size_t>(target)];
        ASSERT_EQ(testing::show(state), show_truth(truth)) << "before event " << target;
        expect_homes(state, truth, rules.expandable_segments);
        expect_tiling(state);
        expect_sums(summarize(state, rules));
      });
  EXPECT_EQ(timeline.counts().end_mismatches, 0U);
  EXPECT_EQ(timeline.counts().unmatched_frees, 0U);
  EXPECT_EQ(timeline.counts().overlapping_blocks, 0U);
  EXPECT_EQ(timeline.counts().bounded_sizes, 0U);
}

TEST_P(TimelineProperty, AWholeTraceGivesEveryStateToTheByte) {
  for_each_seed([this](const ToyAllocator& toy) { expect_every_state(toy, rules_); });
}

std::uint64_t allocated_in(const ToyState& state) {
  std::uint64_t bytes = 0;
  for (const auto& [address, block] : state.blocks)
    bytes += block.pending ? 0 : block.size_bytes;
  return bytes;
}

void expect_peak(const ToyAllocator& toy) {
  EventIndex expected = kBeforeFirst;
  std::uint64_t most = 0;
  for (std::size_t after = 0; after + 1 < toy.states().size(); ++after) {
    const std::uint64_t allocated = allocated_in(toy.states()[after + 1]);
    if (allocated <= most) continue;
    most = allocated;
    expected = static_cast<EventIndex>(after);
  }
  const Recording recording = toy.recording(0);

  const Timeline timeline(recording, 0, RoundingRule::kCuda);

  EXPECT_EQ(timeline.peak().event, expected);
  EXPECT_EQ(timeline.peak().allocated_bytes, most);
}

TEST_P(TimelineProperty, ThePeakIsTheEarliestMostAllocatedState) {
  for_each_seed(expect_peak);
}

bool lies_in(std::uint64_t size, std::uint64_t low, std::uint64_t high) {
  return low <= size && size <= high;
}

/// Free bytes of a segment that has a used block: PyTorch counts them as split unless expandable.
std::uint64_t split_in(const ToyState& state, std::uint64_t address, std::uint64_t size) {
  std::uint64_t used = 0;
  const auto end = state.blocks.lower_bound(address + size);
  for (auto block = state.blocks.lower_bound(address); block != end; ++block)
    used += block->second.size_bytes;
  return used == 0 ? 0 : size - used;
}

/// Raises each level to where it stands in this state.
void raise_levels(PeakLevels& most, const ToyState& state, bool expandable) {
  PeakLevels now;
  now.allocated_bytes.low = allocated_in(state);
  for (const auto& [address, block] : state.blocks) {
    now.active_bytes.low += block.size_bytes;
    now.requested_active_bytes += block.requested_bytes;
  }
  for (const auto& [address, segment] : state.segments) {
    now.reserved_bytes += segment.size_bytes;
    if (!expandable) now.inactive_split_bytes.low += split_in(state, address, segment.size_bytes);
  }
  const auto raise = [](std::uint64_t& level, std::uint64_t to) { level = std::max(level, to); };
  raise(most.reserved_bytes, now.reserved_bytes);
  raise(most.allocated_bytes.low, now.allocated_bytes.low);
  raise(most.active_bytes.low, now.active_bytes.low);
  raise(most.requested_active_bytes, now.requested_active_bytes);
  raise(most.inactive_split_bytes.low, now.inactive_split_bytes.low);
}

/// The levels of the window hold the truth; of a whole trace they are the truth.
void expect_peak_levels(const ToyAllocator& toy, std::size_t cut, bool expandable) {
  PeakLevels truth;
  for (std::size_t at = cut; at < toy.states().size(); ++at)
    raise_levels(truth, toy.states()[at], expandable);
  const Recording recording = toy.recording(cut);
  const Timeline timeline(recording, 0, RoundingRule::kCuda);
  const PeakLevels& levels = timeline.peak_levels();

  EXPECT_EQ(levels.reserved_bytes, truth.reserved_bytes) << cut;
  EXPECT_EQ(levels.requested_active_bytes, truth.requested_active_bytes) << cut;
  const std::pair<Bounds, Bounds> pairs[] = {
      {levels.allocated_bytes, truth.allocated_bytes},
      {levels.active_bytes, truth.active_bytes},
      {levels.inactive_split_bytes, truth.inactive_split_bytes}};
  for (const auto& [found, expected] : pairs) {
    EXPECT_TRUE(lies_in(expected.low, found.low, found.high))
        << cut << ": truly " << testing::show_size(expected.low) << ", found "
        << testing::show_size(found.low) << " to " << testing::show_size(found.high);
    if (cut == 0) {
      EXPECT_EQ(found, exactly(expected.low));
    }
  }
}

TEST_P(TimelineProperty, ThePeakLevelsAreTheHighestOfEachLayer) {
  for_each_seed([this](const ToyAllocator& toy) {
    const std::size_t events = toy.states().size() - 1;
    for (const std::size_t cut : {std::size_t{0}, events / 4, events / 2, events * 9 / 10, events})
      expect_peak_levels(toy, cut, rules_.expandable_segments);
  });
}

/// Every block of the truth is there, in its state, and its size inside the bounds.
void expect_truth_inside(const HeapState& state, const ToyState& truth) {
  ASSERT_EQ(state.segments.size(), truth.segments.size());
  std::size_t used = 0;
  for (const HeapBlock& block : state.blocks) {
    if (block.state == BlockState::kFree) continue;
    ++used;
    const auto found = truth.blocks.find(block.address);
    ASSERT_NE(found, truth.blocks.end()) << testing::show_size(block.address);
    EXPECT_EQ(block.state == BlockState::kPending, found->second.pending);
    EXPECT_TRUE(
        lies_in(found->second.size_bytes, block.size_bytes, block.size_bytes + block.slack_bytes))
        << "block at " << testing::show_size(block.address) << ": truly "
        << testing::show_size(found->second.size_bytes) << ", rebuilt "
        << testing::show_size(block.size_bytes) << "~" << testing::show_size(block.slack_bytes);
    EXPECT_EQ(block.requested_bytes, found->second.requested_bytes);
  }
  EXPECT_EQ(used, truth.blocks.size());
  for (const HeapSegment& segment : state.segments) {
    ASSERT_TRUE(truth.segments.contains(segment.address)) << testing::show_size(segment.address);
    EXPECT_EQ(segment.size_bytes, truth.segments.at(segment.address).size_bytes);
  }
}

void expect_bounds(const ToyAllocator& toy, std::size_t cut, const policy::SizeRules& rules) {
  const Recording recording = toy.recording(cut);
  const Timeline timeline(recording, 0, RoundingRule::kCuda);

  testing::visit_states(
      timeline, all_targets(timeline), [&](EventIndex target, const HeapState& state) {
        SCOPED_TRACE("cut " + std::to_string(cut) + ", before event " + std::to_string(target));
        expect_truth_inside(state, toy.states()[cut + static_cast<std::size_t>(target)]);
        expect_tiling(state);
        expect_sums(summarize(state, rules));
      });
  EXPECT_EQ(timeline.counts().end_mismatches, 0U) << cut;
  EXPECT_EQ(timeline.counts().unmatched_frees, 0U) << cut;
  EXPECT_EQ(timeline.counts().overlapping_blocks, 0U) << cut;
}

TEST_P(TimelineProperty, ACutTraceGivesBoundsThatHoldTheTruth) {
  for_each_seed([this](const ToyAllocator& toy) {
    const std::size_t events = toy.states().size() - 1;
    for (const std::size_t cut : {std::size_t{1}, events / 4, events / 2, events * 9 / 10, events})
      expect_bounds(toy, cut, rules_);
  });
}

INSTANTIATE_TEST_SUITE_P(Programs,
                         TimelineProperty,
                         ::testing::Values(plain(), expandable(), oversize(), roundup()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace fragscope::model
