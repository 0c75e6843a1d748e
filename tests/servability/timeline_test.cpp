// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/timeline.hpp"

#include "tests/support/recording_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace fragscope::servability {
namespace {

using model::EventIndex;
using ::testing::ElementsAre;
using testing::hole;
using testing::kMiB;
using testing::live;
using ::testing::Optional;
using testing::RecordingBuilder;

constexpr std::uint64_t kBase = 1000 * kMiB;

std::optional<Column> column(std::uint64_t least, std::uint64_t most) {
  return Column{least * kMiB, most * kMiB};
}

Timeline timeline_of(const model::Recording& recording,
                     const std::optional<Watch>& asked,
                     std::size_t columns) {
  const model::Timeline history(recording, 0, model::RoundingRule::kCuda);
  return find_timeline(history, asked, recording.settings.rules, columns);
}

model::Recording six_events() {
  RecordingBuilder builder;
  builder.segment({.address = kBase}, {hole(60 * kMiB), live(40 * kMiB)});
  builder
      .segment_alloc(kBase, 100 * kMiB)     // 0
      .alloc(kBase, 60 * kMiB)              // 1
      .alloc(kBase + 60 * kMiB, 40 * kMiB)  // 2
      .free(kBase, 60 * kMiB);              // 3, 4
  return builder.build();
}

TEST(ServabilityTimeline, ShowsTheLongestRunOfAHomeColumnByColumn) {
  const Timeline timeline = timeline_of(six_events(), std::nullopt, 5);
  ASSERT_EQ(timeline.homes.size(), 1U);
  // The segment came for the first block, and is not seen whole.
  EXPECT_THAT(timeline.homes[0].largest_run,
              ElementsAre(column(0, 0),
                          Optional(Column{0, 40 * kMiB}),
                          Optional(Column{0, 40 * kMiB}),
                          Optional(Column{0, 0}),
                          Optional(Column{0, 60 * kMiB})));
  EXPECT_EQ(timeline.homes[0].least_bytes, 0U);
  EXPECT_EQ(timeline.homes[0].most_bytes, 60 * kMiB);
  EXPECT_FALSE(timeline.asked);
}

TEST(ServabilityTimeline, ACurveDoesNotSeeASegmentThatJustCame) {
  const Watch watch{{50 * kMiB, model::kDefaultPool, 0}, {0, 100 * kMiB, std::nullopt}, 5};
  const Timeline timeline = timeline_of(six_events(), watch, 5);
  // The column of event 1 begins where the segment has come, and its block has not been taken.
  EXPECT_EQ(timeline.asked->free_at_home[1], column(0, 40));
  EXPECT_THAT(
      timeline.asked_behind,
      ElementsAre(model::kBeforeFirst, EventIndex{1}, EventIndex{2}, EventIndex{3}, EventIndex{4}));
}

TEST(ServabilityTimeline, EveryEventFallsIntoTheColumnThatBeginsBeforeIt) {
  const Timeline timeline = timeline_of(six_events(), std::nullopt, 2);
  EXPECT_EQ(timeline.begin_of(0), 0);
  EXPECT_EQ(timeline.begin_of(1), 3);
  EXPECT_THAT(timeline.homes[0].largest_run, ElementsAre(column(0, 40), column(0, 60)));
}

TEST(ServabilityTimeline, ThereAreNoMoreColumnsThanEvents) {
  EXPECT_EQ(timeline_of(six_events(), std::nullopt, 60).column_count, 5U);
}

TEST(ServabilityTimeline, TellsWhatHomeAndDriverCouldGiveTogether) {
  const Watch watch{{50 * kMiB, model::kDefaultPool, 0}, {20 * kMiB, 100 * kMiB, std::nullopt}, 5};
  const Timeline timeline = timeline_of(six_events(), watch, 5);
  ASSERT_TRUE(timeline.asked);
  const AskedCurves& asked = *timeline.asked;
  EXPECT_THAT(
      asked.largest_served,
      ElementsAre(
          column(120, 120), column(40, 120), column(20, 40), column(20, 20), column(20, 60)));
  EXPECT_EQ(asked.first, Server::kDriver);
  EXPECT_EQ(asked.last, Server::kHole);
  ASSERT_EQ(asked.turns.size(), 2U);
  EXPECT_EQ(asked.turns[0].cause.event, 1);
  EXPECT_TRUE(asked.turns[0].is_to_no());
  EXPECT_EQ(asked.turns[1].cause.event, 4);
  EXPECT_FALSE(asked.turns[1].is_to_no());
}

TEST(ServabilityTimeline, KeepsTheFirstAndTheLastTurns) {
  RecordingBuilder builder;
  builder.segment({.address = kBase}, {hole(40 * kMiB)});
  builder.segment_alloc(kBase, 40 * kMiB);
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round)
    builder.alloc(kBase, 40 * kMiB).free(kBase, 40 * kMiB);
  const Watch watch{{30 * kMiB, model::kDefaultPool, 0}, {}, 1000};
  const Timeline timeline = timeline_of(builder.build(), watch, 10);
  // The first hand-out takes what came for it; from then on every round turns twice, but for that.
  EXPECT_EQ(timeline.asked->turn_count, 2U * kRounds - 1);
  ASSERT_EQ(timeline.asked->turns.size(), 2 * kKeptTurns);
  // Once its free is asked for, waiting for it would give the segment back.
  EXPECT_EQ(timeline.asked->turns.front().cause.event, 2);
  EXPECT_EQ(timeline.asked->turns.back().cause.event, 3 * kRounds - 1);
}

}  // namespace
}  // namespace fragscope::servability
