// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/segment_history.hpp"

#include "tests/support/recording_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace fragscope::model {
namespace {

using ::testing::ElementsAre;
using testing::hole;
using ::testing::IsEmpty;
using testing::kMiB;
using ::testing::Pair;
using testing::RecordingBuilder;

SegmentHistory history_of(RecordingBuilder& builder) {
  static Recording recording;  // the history keeps no reference to it
  recording = builder.build();
  return {recording.segments, recording.events, recording.settings.rules};
}

TEST(MappedRanges, MergeWithBothNeighbours) {
  MappedRanges ranges;

  EXPECT_TRUE(map_range(ranges, 10, 20));
  EXPECT_TRUE(map_range(ranges, 30, 40));
  EXPECT_TRUE(map_range(ranges, 50, 60));
  EXPECT_TRUE(map_range(ranges, 20, 30));

  EXPECT_THAT(ranges, ElementsAre(Pair(10, 40), Pair(50, 60)));
}

TEST(MappedRanges, RefuseWhatIsThereAlready) {
  MappedRanges ranges;
  ASSERT_TRUE(map_range(ranges, 10, 20));

  EXPECT_FALSE(map_range(ranges, 10, 20));
  EXPECT_FALSE(map_range(ranges, 5, 11));
  EXPECT_FALSE(map_range(ranges, 19, 25));
  EXPECT_FALSE(map_range(ranges, 0, 100));
  EXPECT_FALSE(map_range(ranges, 12, 15));

  EXPECT_THAT(ranges, ElementsAre(Pair(10, 20)));
}

TEST(MappedRanges, SplitWhereTheMiddleGoes) {
  MappedRanges ranges;
  ASSERT_TRUE(map_range(ranges, 10, 50));

  EXPECT_TRUE(unmap_range(ranges, 20, 30));
  EXPECT_TRUE(unmap_range(ranges, 10, 15));
  EXPECT_TRUE(unmap_range(ranges, 45, 50));

  EXPECT_THAT(ranges, ElementsAre(Pair(15, 20), Pair(30, 45)));
  EXPECT_FALSE(unmap_range(ranges, 15, 31)) << "not all of it is mapped";
  EXPECT_FALSE(unmap_range(ranges, 10, 16));
  EXPECT_FALSE(unmap_range(ranges, 60, 70));
  EXPECT_TRUE(unmap_range(ranges, 15, 20));
  EXPECT_THAT(ranges, ElementsAre(Pair(30, 45)));
}

TEST(SegmentHistory, APlainSegmentLivesFromItsAllocation) {
  RecordingBuilder builder;
  builder.segment({100 * kMiB}, {hole(20 * kMiB)})
      .event(Action::kSnapshot, 0, 0)
      .segment_alloc(100 * kMiB, 20 * kMiB);

  const SegmentHistory history = history_of(builder);

  ASSERT_EQ(history.plain().size(), 1U);
  EXPECT_EQ(history.plain()[0].alloc_event, 1);
  EXPECT_THAT(history.changes(), ElementsAre(1));
  EXPECT_EQ(history.plain_of_change(0), 0);
  EXPECT_EQ(history.unmatched_count(), 0U);
}

TEST(SegmentHistory, AVanishedSegmentIsKnownByItsFree) {
  RecordingBuilder builder;
  Event freed;
  freed.action = Action::kSegmentFree;
  freed.address = 100 * kMiB;
  freed.size_bytes = 64 * kMiB;
  freed.stream = 7;
  builder.event(freed).segment_free(300 * kMiB, 2 * kMiB);

  const SegmentHistory history = history_of(builder);

  ASSERT_EQ(history.plain().size(), 2U);
  const PlainSegment& small = history.plain()[0];
  const PlainSegment& large = history.plain()[1];
  EXPECT_EQ(large.alloc_event, kBeforeFirst);
  EXPECT_EQ(history.plain_of_change(0), 1);
  EXPECT_EQ(large.home.stream, 7);
  EXPECT_EQ(large.home.size_class, SizeClass::kLarge);
  EXPECT_EQ(large.home.pool, kUnknownPool);
  EXPECT_TRUE(large.home_assumed);
  EXPECT_EQ(small.home.size_class, SizeClass::kSmall) << "no large segment has 2 MiB";
}

TEST(SegmentHistory, TheSameAddressMayBeUsedAgain) {
  RecordingBuilder builder;
  builder.segment({100 * kMiB}, {hole(20 * kMiB)})
      .segment_alloc(100 * kMiB, 64 * kMiB)
      .segment_free(100 * kMiB, 64 * kMiB)
      .segment_alloc(100 * kMiB, 20 * kMiB);

  const SegmentHistory history = history_of(builder);

  ASSERT_EQ(history.plain().size(), 2U);
  EXPECT_EQ(history.plain()[0].alloc_event, 2);
  EXPECT_EQ(history.plain()[1].alloc_event, 0);
  EXPECT_EQ(history.plain()[1].size_bytes, 64 * kMiB);
  EXPECT_EQ(history.plain_of_change(0), 1);
  EXPECT_EQ(history.plain_of_change(1), 1);
  EXPECT_EQ(history.plain_of_change(2), 0);
}

TEST(SegmentHistory, CountsEventsThatContradictTheOthers) {
  RecordingBuilder builder;
  builder.segment({100 * kMiB}, {hole(20 * kMiB)})
      .segment_alloc(500 * kMiB, 20 * kMiB)            // never there
      .segment_alloc(100 * kMiB, 40 * kMiB)            // another size than it has
      .segment_free(110 * kMiB, 20 * kMiB)             // inside one that stays
      .segment_free(90 * kMiB, 20 * kMiB)              // reaches into one that stays
      .segment_free(900 * kMiB, 0)                     // no size
      .segment_free(~std::uint64_t{0} - 5, 20 * kMiB)  // beyond the last address
      .map(600 * kMiB, 20 * kMiB)                      // never there
      .unmap(700 * kMiB, 0);

  EXPECT_EQ(history_of(builder).unmatched_count(), 8U);
}

TEST(SegmentHistory, AnExpandableSegmentGrowsInSteps) {
  RecordingBuilder builder;
  builder.segment({1000 * kMiB, SizeClass::kLarge, true, 5}, {hole(60 * kMiB)})
      .map(1020 * kMiB, 20 * kMiB)
      .map(1040 * kMiB, 20 * kMiB);

  const SegmentHistory history = history_of(builder);

  EXPECT_THAT(history.mapped_at_start(), ElementsAre(Pair(1000 * kMiB, 1020 * kMiB)));
  ASSERT_EQ(history.areas().size(), 1U);
  EXPECT_EQ(history.areas()[0].begin, 1000 * kMiB);
  EXPECT_EQ(history.areas()[0].end, 1060 * kMiB);
  EXPECT_EQ(history.areas()[0].home.stream, 5);
  EXPECT_FALSE(history.areas()[0].owners[0].class_assumed);
  EXPECT_EQ(history.unmatched_count(), 0U);
}

TEST(SegmentHistory, AnUnmappedMiddleWasThereBefore) {
  RecordingBuilder builder;
  builder.segment({1000 * kMiB, SizeClass::kLarge, true}, {hole(20 * kMiB)})
      .segment({1040 * kMiB, SizeClass::kLarge, true}, {hole(20 * kMiB)})
      .unmap(1020 * kMiB, 20 * kMiB);

  const SegmentHistory history = history_of(builder);

  EXPECT_THAT(history.mapped_at_start(), ElementsAre(Pair(1000 * kMiB, 1060 * kMiB)));
  EXPECT_EQ(history.areas().size(), 1U);
}

TEST(SegmentHistory, TwoExpandableSegmentsThatTouchStayTwo) {
  RecordingBuilder builder;
  builder.segment({1000 * kMiB, SizeClass::kLarge, true, 1}, {hole(20 * kMiB)})
      .segment({1020 * kMiB, SizeClass::kLarge, true, 2}, {hole(20 * kMiB)});

  const SegmentHistory history = history_of(builder);

  ASSERT_EQ(history.areas().size(), 2U);
  EXPECT_EQ(history.area_at(1019 * kMiB)->home.stream, 1);
  EXPECT_EQ(history.area_at(1020 * kMiB)->home.stream, 2);
  EXPECT_EQ(history.area_at(1040 * kMiB), nullptr);
  EXPECT_EQ(history.area_at(999 * kMiB), nullptr);
}

TEST(SegmentHistory, AVanishedAreaIsOfTheClassOfItsFirstBlock) {
  RecordingBuilder builder;
  builder.map(1000 * kMiB, 20 * kMiB)
      .map(2000 * kMiB, 2 * kMiB)
      .map(3000 * kMiB, 20 * kMiB)
      .alloc(1000 * kMiB, 4096)  // 20 MiB, but full of small blocks
      .free(1000 * kMiB, 4096)
      .unmap(1000 * kMiB, 20 * kMiB)
      .unmap(2000 * kMiB, 2 * kMiB)
      .unmap(3000 * kMiB, 20 * kMiB);

  const SegmentHistory history = history_of(builder);

  EXPECT_THAT(history.mapped_at_start(), IsEmpty());
  ASSERT_EQ(history.areas().size(), 3U);
  EXPECT_EQ(history.areas()[0].owners[0].home.size_class, SizeClass::kSmall);
  EXPECT_FALSE(history.areas()[0].owners[0].class_assumed);
  EXPECT_EQ(history.areas()[1].owners[0].home.size_class, SizeClass::kSmall)
      << "no whole large page";
  EXPECT_TRUE(history.areas()[1].owners[0].class_assumed);
  EXPECT_EQ(history.areas()[2].owners[0].home.size_class, SizeClass::kLarge);
}

}  // namespace
}  // namespace fragscope::model
