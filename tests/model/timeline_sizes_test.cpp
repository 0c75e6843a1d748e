// SPDX-License-Identifier: Apache-2.0
// Which sizes a timeline derives, and where it has to leave a bound. Addresses and sizes are such
// that every expected state can be worked out in the head; the working is beside each.
#include "analyzer/model/timeline.hpp"
#include "tests/support/recording_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace fragscope::model {
namespace {

using ::testing::ElementsAre;
using testing::hole;
using testing::kKiB;
using testing::kMiB;
using testing::live;
using testing::RecordingBuilder;
using testing::states_of;

constexpr std::uint64_t kAt = 100 * kMiB;

// 4 MiB of 20 are cut off, then 2.5 MiB (2,621,300 bytes round to 2560 KiB) of the 16 left.
TEST(TimelineSizes, AHandOutCutsTheFrontOffItsHole) {
  const Recording recording =
      RecordingBuilder()
          .segment({kAt}, {live(4 * kMiB), live(2560 * kKiB, 2'621'300), hole(13824 * kKiB)})
          .segment_alloc(kAt, 20 * kMiB)
          .alloc(kAt, 4 * kMiB)
          .alloc(kAt + 4 * kMiB, 2'621'300)
          .build();

  EXPECT_THAT(states_of(recording),
              ElementsAre("", "@100M H20M", "@100M L4M H16M", "@100M L4M L2560K H13824K"));
}

// 20 MiB less 19 leave exactly 1 MiB, which is not worth splitting: the block is the whole hole.
// 512 bytes more would be.
TEST(TimelineSizes, ARestOfOneMiBBelongsToTheBlock) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt}, {hole(20 * kMiB)})
                                  .segment_alloc(kAt, 20 * kMiB)
                                  .alloc(kAt, 19 * kMiB)
                                  .free(kAt, 19 * kMiB)
                                  .alloc(kAt, 19 * kMiB - 512)
                                  .free(kAt, 19 * kMiB - 512)
                                  .build();

  EXPECT_THAT(states_of(recording),
              ElementsAre("",
                          "@100M H20M",
                          "@100M L20M",
                          "@100M P20M",
                          "@100M H20M",
                          "@100M L19922432 H1049088",  // 19 MiB - 512, 1 MiB + 512
                          "@100M P19922432 H1049088",
                          "@100M H20M"));
}

// A hole of 3 MiB between two blocks; 2.5 MiB take it whole, since half a MiB would be left.
TEST(TimelineSizes, ARestBetweenTwoBlocksBelongsToTheFirst) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt}, {live(5 * kMiB), hole(3 * kMiB), live(12 * kMiB)})
                                  .alloc(kAt + 5 * kMiB, 2560 * kKiB)
                                  .free(kAt + 5 * kMiB, 2560 * kKiB)
                                  .build();

  EXPECT_THAT(
      states_of(recording),
      ElementsAre(
          "@100M L5M H3M L12M", "@100M L5M L3M L12M", "@100M L5M P3M L12M", "@100M L5M H3M L12M"));
}

TEST(TimelineSizes, ExpandableAndSmallSegmentsSplitAtEveryByte) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt, SizeClass::kLarge, true}, {hole(20 * kMiB)})
                                  .segment({200 * kMiB, SizeClass::kSmall}, {hole(2 * kMiB)})
                                  .alloc(kAt, 20 * kMiB - 512)
                                  .alloc(200 * kMiB, 1)
                                  .free(kAt, 20 * kMiB - 512)
                                  .free(200 * kMiB, 1)
                                  .build();

  EXPECT_THAT(states_of(recording),
              ElementsAre("@100M H20M @200M H2M",
                          "@100M L20971008 H512 @200M H2M",
                          "@100M L20971008 H512 @200M L512 H2096640",
                          "@100M P20971008 H512 @200M L512 H2096640",
                          "@100M H20M @200M L512 H2096640",
                          "@100M H20M @200M P512 H2096640",
                          "@100M H20M @200M H2M"));
}

// Nothing says where the block of 4 MiB ended: it may have kept up to 1 MiB of what was behind.
TEST(TimelineSizes, ALargeBlockFromBeforeTheWindowIsABound) {
  const Recording recording =
      RecordingBuilder().segment({kAt}, {hole(20 * kMiB)}).free(kAt, 4 * kMiB).build();
  const Timeline timeline(recording, 0, RoundingRule::kCuda);

  EXPECT_THAT(states_of(timeline),
              ElementsAre("@100M L4M~1M H16M~1M", "@100M P4M~1M H16M~1M", "@100M H20M"));
  EXPECT_EQ(timeline.counts().bounded_sizes, 1U);
  EXPECT_EQ(timeline.counts().from_before, 1U);
}

// It ends where the segment does, half a MiB further on: no hole so small exists.
TEST(TimelineSizes, TheGapToTheBorderMakesItExact) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt}, {hole(20 * kMiB)})
                                  .free(kAt, 19 * kMiB + 512 * kKiB)
                                  .build();
  const Timeline timeline(recording, 0, RoundingRule::kCuda);

  EXPECT_EQ(states_of(timeline).front(), "@100M L20M");
  EXPECT_EQ(timeline.counts().bounded_sizes, 0U);
}

// The same before a block that is there at the end: 104.5 - 100 = 4.5 MiB.
TEST(TimelineSizes, TheGapToTheNextBlockMakesItExact) {
  const Recording recording =
      RecordingBuilder()
          .segment({kAt}, {hole(4608 * kKiB), live(2 * kMiB), hole(13824 * kKiB)})
          .free(kAt, 4 * kMiB)
          .build();

  EXPECT_EQ(states_of(recording).front(), "@100M L4608K L2M H13824K");
}

// While it lives, a block is handed out at 104.75 MiB; hand-outs take the front of a hole, so that
// is where it ends: 4.75 MiB = 4864 KiB.
TEST(TimelineSizes, ALaterNeighbourMakesItExact) {
  const Recording recording =
      RecordingBuilder()
          .segment({kAt}, {hole(4864 * kKiB), live(2 * kMiB), hole(13568 * kKiB)})
          .alloc(kAt + 4864 * kKiB, 2 * kMiB)
          .free(kAt, 4 * kMiB)
          .build();
  const Timeline timeline(recording, 0, RoundingRule::kCuda);

  EXPECT_EQ(states_of(timeline).front(), "@100M L4864K H15616K");
  EXPECT_EQ(timeline.counts().bounded_sizes, 0U);
}

// The neighbour comes 2 MiB behind its least size: something else lay between, so it says nothing.
TEST(TimelineSizes, ANeighbourFurtherAwaySaysNothing) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt}, {hole(6 * kMiB), live(2 * kMiB), hole(12 * kMiB)})
                                  .alloc(kAt + 6 * kMiB, 2 * kMiB)
                                  .free(kAt, 4 * kMiB)
                                  .build();

  EXPECT_EQ(states_of(recording).front(), "@100M L4M~1M H16M~1M");
}

// A block from before that lasts to the end has the size the file gives, rest included.
TEST(TimelineSizes, ABlockThatLastsIsExact) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt}, {live(20 * kMiB, 19 * kMiB + 300)})
                                  .segment({200 * kMiB}, {hole(20 * kMiB)})
                                  .alloc(200 * kMiB, 2 * kMiB)
                                  .free(200 * kMiB, 2 * kMiB)
                                  .build();

  EXPECT_EQ(states_of(recording).front(), "@100M L20M @200M H20M");
}

TEST(TimelineSizes, SmallAndExpandableBlocksFromBeforeAreExact) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt, SizeClass::kLarge, true}, {hole(20 * kMiB)})
                                  .segment({200 * kMiB, SizeClass::kSmall}, {hole(2 * kMiB)})
                                  .free(kAt, 4 * kMiB)
                                  .free(200 * kMiB, 1000)
                                  .build();

  EXPECT_EQ(states_of(recording).front(), "@100M L4M H16M @200M L1K H2047K");
}

// With max_split_size_mb:256 a request of 256 MiB and more is never cut from a larger block: 290
// MiB take a segment of 300 whole.
TEST(TimelineSizes, AnOversizeBlockHoldsItsWholeSegment) {
  policy::SizeRules rules;
  rules.max_split_size = 256 * kMiB;
  const auto with = [&rules](RecordingBuilder builder) {
    return states_of(
        builder.rules(rules).segment({kAt}, {hole(300 * kMiB)}).free(kAt, 290 * kMiB).build());
  };

  EXPECT_EQ(with(RecordingBuilder()).front(), "@100M L300M") << "from before the window";
  EXPECT_EQ(with(RecordingBuilder().alloc(kAt, 290 * kMiB)).at(1), "@100M L300M");
}

// The fork rounds n to 512 * ceil((n + 32) / 512): 1010 bytes get 1536, PyTorch gives 1024. A trace
// says 1010 only.
TEST(TimelineSizes, APaddingWriterLeavesBounds) {
  const Recording recording =
      RecordingBuilder()
          .segment({kAt, SizeClass::kSmall}, {live(1536, 1010), hole(2 * kMiB - 1536)})
          .alloc(kAt + 1536, 1010)
          .free(kAt + 1536, 1010)
          .build();

  const auto states = states_of(Timeline(recording, 0, RoundingRule::kPadded32));

  EXPECT_EQ(states.at(0), "@100M L1536 H2095616");
  EXPECT_EQ(states.at(1), "@100M L1536 L1K~512 H2094592~512");
  EXPECT_EQ(states.back(), "@100M L1536 H2095616");
}

TEST(TimelineSizes, SegmentsComeAndGoWithTheirBlocks) {
  const Recording recording = RecordingBuilder()
                                  .segment_alloc(kAt, 20 * kMiB)
                                  .alloc(kAt, 5 * kMiB)
                                  .segment_alloc(200 * kMiB, 2 * kMiB)
                                  .alloc(200 * kMiB, 512)
                                  .free(kAt, 5 * kMiB)
                                  .segment_free(kAt, 20 * kMiB)
                                  .free(200 * kMiB, 512)
                                  .segment_free(200 * kMiB, 2 * kMiB)
                                  .build();

  EXPECT_THAT(states_of(recording),
              ElementsAre("",
                          "@100M H20M",
                          "@100M L5M H15M",
                          "@100M L5M H15M @200M H2M",
                          "@100M L5M H15M @200M L512 H2096640",
                          "@100M P5M H15M @200M L512 H2096640",
                          "@100M H20M @200M L512 H2096640",
                          "@200M L512 H2096640",
                          "@200M P512 H2096640",
                          "@200M H2M",
                          ""));
}

TEST(TimelineSizes, ExpandableSegmentsGrowAndTear) {
  const Recording recording =
      RecordingBuilder()
          .segment({kAt, SizeClass::kLarge, true}, {live(5 * kMiB), hole(15 * kMiB)})
          .segment({kAt + 40 * kMiB, SizeClass::kLarge, true}, {live(20 * kMiB)})
          .map(kAt, 20 * kMiB)
          .alloc(kAt, 5 * kMiB)
          .map(kAt + 20 * kMiB, 40 * kMiB)
          .alloc(kAt + 5 * kMiB, 35 * kMiB)
          .alloc(kAt + 40 * kMiB, 20 * kMiB)
          .free(kAt + 5 * kMiB, 35 * kMiB)
          .unmap(kAt + 20 * kMiB, 20 * kMiB)
          .build();

  EXPECT_THAT(states_of(recording),
              ElementsAre("",
                          "@100M H20M",
                          "@100M L5M H15M",
                          "@100M L5M H55M",
                          "@100M L5M L35M H20M",
                          "@100M L5M L35M L20M",
                          "@100M L5M P35M L20M",
                          "@100M L5M H35M L20M",
                          "@100M L5M H15M @140M L20M"));
}

}  // namespace
}  // namespace fragscope::model
