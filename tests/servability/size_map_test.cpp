// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/size_map.hpp"

#include "analyzer/model/timeline.hpp"
#include "analyzer/verdict/ladder.hpp"
#include "analyzer/verdict/supply.hpp"
#include "tests/model/toy_allocator.hpp"
#include "tests/support/recording_builder.hpp"
#include "tests/support/result_matchers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

namespace fragscope::servability {
namespace {

using model::EventIndex;
using model::HeapState;
using ::testing::ElementsAre;
using testing::hole;
using testing::kMiB;
using testing::live;
using testing::RecordingBuilder;

constexpr std::uint64_t kBase = 1000 * kMiB;

/// A segment in which a block in the middle stays, behind each event.
model::Recording pinned_segment() {
  RecordingBuilder builder;
  builder.segment({.address = kBase}, {hole(60 * kMiB), live(8 * kMiB), hole(32 * kMiB)});
  builder
      .segment_alloc(kBase, 100 * kMiB)    // 0
      .alloc(kBase, 60 * kMiB)             // 1
      .alloc(kBase + 60 * kMiB, 8 * kMiB)  // 2
      .free(kBase, 60 * kMiB);             // 3, 4
  return builder.build();
}

Result<SizeMap> map_of(const model::Recording& recording,
                       const Watch& watch,
                       std::vector<std::uint64_t> sizes,
                       std::vector<EventIndex> targets,
                       kernels::Device device = kernels::Device::kAuto) {
  const model::Timeline history(recording, 0, model::RoundingRule::kCuda);
  return find_size_map(history, watch, std::move(sizes), targets, recording.settings.rules, device);
}

TEST(SizeMap, NamesTheFirstMeansOfEachSizeAtEachMoment) {
  Watch watch;
  watch.request.size_bytes = 80 * kMiB;
  watch.room = {.free_bytes = 10 * kMiB, .reserved_bytes = 100 * kMiB, .limit_bytes = {}};
  const auto map = map_of(pinned_segment(),
                          watch,
                          {4 * kMiB, 20 * kMiB, 60 * kMiB, 80 * kMiB, 110 * kMiB},
                          {1, 2, 3, 5});
  ASSERT_THAT(map, test::IsOk());
  ASSERT_EQ(map->moments.size(), 4U);
  const auto column = [&map](std::size_t moment) {
    std::vector<Means> means;
    for (std::size_t size = 0; size < map->sizes.size(); ++size)
      means.push_back(map->means_for(size, moment));
    return means;
  };
  constexpr Means kHole = Means::kHole;
  constexpr Means kDriver = Means::kDriver;
  constexpr Means kNothing = Means::kNothing;
  // All of the segment is free, and could go back.
  EXPECT_THAT(column(0), ElementsAre(kHole, kHole, kHole, kHole, kDriver));
  EXPECT_THAT(column(1), ElementsAre(kHole, kHole, kNothing, kNothing, kNothing));
  EXPECT_THAT(column(2), ElementsAre(kHole, kHole, kNothing, kNothing, kNothing));
  // 60 + 32 MiB lie free around the block in the middle.
  EXPECT_THAT(column(3), ElementsAre(kHole, kHole, kHole, Means::kCompaction, kNothing));
  EXPECT_EQ(map->moments[0].driver_bytes, 110 * kMiB);
  EXPECT_EQ(map->moments[3].driver_bytes, 10 * kMiB);
  EXPECT_EQ(map->moments[0].move_bytes, 0U);
  EXPECT_EQ(map->moments[1].move_bytes, 60 * kMiB);
  EXPECT_EQ(map->moments[3].move_bytes, 8 * kMiB);
}

TEST(SizeMap, ASmallDriverNeedIsRoundedAsTheAllocatorDoes) {
  Watch watch;
  watch.request.size_bytes = 4 * kMiB;
  // 4 MiB want a segment of 20 MiB.
  watch.room = {.free_bytes = 19 * kMiB, .reserved_bytes = 100 * kMiB, .limit_bytes = {}};
  model::Recording recording = pinned_segment();
  const auto full = map_of(recording, watch, {34 * kMiB}, {3});
  ASSERT_THAT(full, test::IsOk());
  EXPECT_EQ(full->means_for(0, 0), Means::kCompaction);  // 32 MiB and 19 MiB
  watch.room.limit_bytes = 100 * kMiB;
  const auto limited = map_of(recording, watch, {34 * kMiB}, {3});
  ASSERT_THAT(limited, test::IsOk());
  EXPECT_EQ(limited->moments[0].driver_bytes, 0U);
  EXPECT_EQ(limited->means_for(0, 0), Means::kNothing);
}

TEST(SizeMap, BlocksThatMoveMakeNoSegmentWhereTheDriverHasTooLittleForOne) {
  Watch watch;
  watch.request.size_bytes = 4 * kMiB;
  watch.request.stream = 7;  // Nothing is at home there.
  watch.room = {.free_bytes = 19 * kMiB, .reserved_bytes = 100 * kMiB, .limit_bytes = {}};
  const auto map = map_of(pinned_segment(), watch, {4 * kMiB, 12 * kMiB}, {3});
  ASSERT_THAT(map, test::IsOk());
  EXPECT_EQ(map->means_for(0, 0), Means::kNothing);  // It wants 20 MiB.
  EXPECT_EQ(map->means_for(1, 0), Means::kDriver);
}

TEST(SizeMap, SegmentsOfAPrivatePoolDoNotGoBack) {
  constexpr auto kPrivate = static_cast<model::PoolIndex>(1);
  constexpr std::uint64_t kOther = kBase + 100 * kMiB;
  RecordingBuilder builder;
  builder.segment({.address = kBase, .pool = kPrivate}, {hole(40 * kMiB)});
  builder.segment({.address = kOther, .pool = kPrivate}, {hole(40 * kMiB)});
  builder.segment_alloc(kBase, 40 * kMiB).segment_alloc(kOther, 40 * kMiB);
  Watch watch;
  watch.request = {60 * kMiB, kPrivate, 0};
  watch.room = {.free_bytes = 0, .reserved_bytes = 80 * kMiB, .limit_bytes = {}};
  const auto map = map_of(builder.build(), watch, {60 * kMiB}, {2});
  ASSERT_THAT(map, test::IsOk());
  EXPECT_EQ(map->moments[0].driver_bytes, 0U);
  EXPECT_EQ(map->means_for(0, 0), Means::kCompaction);
}

TEST(SizeMap, SaysWhereItWasScanned) {
  Watch watch;
  watch.request.size_bytes = 80 * kMiB;
  const auto map = map_of(pinned_segment(), watch, {80 * kMiB}, {3}, kernels::Device::kCpu);
  ASSERT_THAT(map, test::IsOk());
  EXPECT_EQ(map->ran.device, kernels::Device::kCpu);
  EXPECT_EQ(map->ran.reason, "the CPU, as asked for");
  EXPECT_FALSE(map->moments[0].move_bytes == std::nullopt);
  watch.request.size_bytes = 101 * kMiB;
  const auto too_large = map_of(pinned_segment(), watch, {101 * kMiB}, {3});
  ASSERT_THAT(too_large, test::IsOk());
  EXPECT_EQ(too_large->moments[0].move_bytes, std::nullopt);
}

/// The least live bytes in whole adjacent blocks of one segment at home, tried one by one.
std::optional<std::uint64_t> least_to_move(const HeapState& state,
                                           const Request& request,
                                           bool expandable) {
  std::optional<std::uint64_t> least;
  for (const model::HeapSegment& segment : state.segments) {
    if (segment.home != request.home(segment.home.expandable)) continue;
    if (segment.home.expandable && !expandable) continue;
    const auto blocks = state.blocks_of(segment);
    for (std::size_t first = 0; first < blocks.size(); ++first) {
      std::uint64_t bytes = 0;
      std::uint64_t live_bytes = 0;
      for (std::size_t i = first; i < blocks.size() && bytes < request.size_bytes; ++i) {
        bytes += blocks[i].size_bytes;
        if (blocks[i].state != model::BlockState::kFree) live_bytes += blocks[i].size_bytes;
      }
      if (bytes >= request.size_bytes) least = std::min(least.value_or(live_bytes), live_bytes);
    }
  }
  return least;
}

verdict::Judgement judge_size(std::uint64_t size_bytes,
                              const HeapState& state,
                              const Watch& watch,
                              const policy::SizeRules& rules) {
  verdict::Question question;
  question.size_bytes = size_bytes;
  question.stream = watch.request.stream;
  const verdict::Supply supply = verdict::find_supply(state, question, rules);
  verdict::DeviceFacts facts;
  facts.free = {model::exactly(watch.room.free_with(supply.reserved_bytes)), "the test"};
  return verdict::judge(question, supply, std::nullopt, facts, rules);
}

class SizeMapAgrees : public ::testing::TestWithParam<bool> {};

TEST_P(SizeMapAgrees, WithTheLadderOfEachState) {
  policy::SizeRules rules;
  rules.expandable_segments = GetParam();
  std::size_t compared = 0;
  std::size_t by_driver = 0;
  std::size_t by_compaction = 0;
  for (std::uint32_t seed = 1; seed <= 25 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    model::ToyAllocator toy(rules, seed);
    for (int step = 0; step < 200; ++step)
      toy.step();
    model::Recording recording = toy.recording(0);
    for (model::Event& event : recording.events)
      event.pool = model::kDefaultPool;
    recording.settings.rules = rules;
    const model::Timeline timeline(recording, 0, model::RoundingRule::kCuda);
    std::vector<EventIndex> targets;
    for (EventIndex target = 0; target <= timeline.end_event(); target += 3)
      targets.push_back(target);
    std::mt19937 random(seed);
    Watch watch;
    watch.request.stream = static_cast<std::int64_t>(random() % 3);
    watch.room = {random() % (64 * kMiB), random() % (100 * kMiB), std::nullopt};
    std::vector<std::uint64_t> sizes;
    for (const std::uint64_t mib : {2U, 5U, 9U, 14U, 30U, 66U})
      sizes.push_back(mib * kMiB + std::uint64_t{512} * (random() % 1000));
    watch.request.size_bytes = sizes[random() % sizes.size()];
    const auto map = find_size_map(timeline, watch, sizes, targets, rules, kernels::Device::kAuto);
    ASSERT_THAT(map, test::IsOk());
    ASSERT_EQ(map->moments.size(), targets.size());

    std::size_t moment = 0;
    timeline.visit_states_until(targets, [&](EventIndex target, const HeapState& state) {
      EXPECT_EQ(map->moments[moment].behind, target - 1);
      EXPECT_EQ(map->moments[moment].move_bytes,
                least_to_move(state, watch.request, rules.expandable_segments));
      for (std::size_t size = 0; size < sizes.size(); ++size) {
        const auto ladder = judge_size(sizes[size], state, watch, rules).ladder;
        const bool has_hole = ladder[0].fits == verdict::Fits::kYes;
        const bool is_served = ladder[2].fits == verdict::Fits::kYes;
        const Means means = map->means_for(size, moment);
        EXPECT_EQ(means == Means::kHole, has_hole) << "size " << sizes[size];
        const bool map_serves = means == Means::kHole || means == Means::kDriver;
        // Pages beside a free tail are not counted, and no page counts that is not there.
        if (!rules.expandable_segments) {
          EXPECT_EQ(map_serves, is_served) << sizes[size];
        } else if (map_serves) {
          EXPECT_TRUE(is_served) << sizes[size];
        }
        // Rung 6 fits where rung 5 does, whatever lies at home.
        if (!map_serves && ladder[4].fits == verdict::Fits::kNo) {
          EXPECT_EQ(means == Means::kCompaction, ladder[5].fits == verdict::Fits::kYes)
              << sizes[size];
          by_compaction += means == Means::kCompaction ? 1 : 0;
        }
        by_driver += means == Means::kDriver ? 1 : 0;
        ++compared;
      }
      ++moment;
      return true;
    });
  }
  EXPECT_GT(compared, 5000U);
  EXPECT_GT(by_driver, 200U);
  EXPECT_GT(by_compaction, 100U);
}

INSTANTIATE_TEST_SUITE_P(Segments, SizeMapAgrees, ::testing::Bool(), [](const auto& expandable) {
  return expandable.param ? "expandable" : "plain";
});

}  // namespace
}  // namespace fragscope::servability
