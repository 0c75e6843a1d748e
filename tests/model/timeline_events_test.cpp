// SPDX-License-Identifier: Apache-2.0
// What a timeline makes of events: which state belongs to which number, the peak, pending blocks,
// and traces that do not add up.
#include "analyzer/model/timeline.hpp"
#include "tests/support/recording_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fragscope::model {
namespace {

using ::testing::ElementsAre;
using testing::hole;
using testing::kKiB;
using testing::kMiB;
using testing::live;
using testing::pending;
using testing::RecordingBuilder;
using testing::states_of;

constexpr std::uint64_t kAt = 100 * kMiB;
constexpr SizeClass kSmall = SizeClass::kSmall;

Timeline timeline_of(const Recording& recording, std::int32_t device = 0) {
  return {recording, device, RoundingRule::kCuda};
}

/// A segment of class small, 64 KiB long for short states, empty at the end.
RecordingBuilder with_empty_segment() {
  return RecordingBuilder().segment({kAt, kSmall}, {hole(64 * kKiB)});
}

TEST(Timeline, ABlockIsPendingBetweenItsTwoFreeEvents) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt, kSmall}, {pending(kKiB), hole(63 * kKiB)})
                                  .alloc(kAt, kKiB)
                                  .alloc(kAt + kKiB, kKiB)
                                  .free_requested(kAt + kKiB, kKiB)
                                  .free_requested(kAt, kKiB)
                                  .free_completed(kAt + kKiB, kKiB)
                                  .build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_THAT(states_of(timeline),
              ElementsAre("@100M H64K",
                          "@100M L1K H63K",
                          "@100M L1K L1K H62K",
                          "@100M L1K P1K H62K",
                          "@100M P1K P1K H62K",
                          "@100M P1K H63K"));
  EXPECT_FALSE(timeline.counts().no_free_completed);
  EXPECT_EQ(timeline.counts().end_mismatches, 0U);
}

TEST(Timeline, ABlockWhoseFreeBeganBeforeTheWindowIsPendingAtTheStart) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt, kSmall}, {hole(2 * kKiB), pending(62 * kKiB)})
                                  .free_completed(kAt, 2 * kKiB)
                                  .build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_EQ(states_of(timeline).front(), "@100M P2K P62K");
  EXPECT_EQ(timeline.counts().unmatched_frees, 0U);
  EXPECT_EQ(timeline.peak().allocated_bytes, 0U);
}

TEST(Timeline, OtherEventsChangeNothing) {
  const Recording recording = with_empty_segment()
                                  .event(Action::kSnapshot, 0, 4096)
                                  .event(Action::kOom, 123, kMiB)
                                  .event(Action::kAnnotate, kAt, 512)
                                  .event(Action::kOther, kAt, 512)
                                  .build();

  for (const std::string& state : states_of(recording))
    EXPECT_EQ(state, "@100M H64K");
}

// Events 0 to 3; allocated after them: 1, 2, 1, 2 KiB. The earliest of the two highest counts.
TEST(Timeline, ThePeakIsTheEarliestOfEquals) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt, kSmall}, {live(kKiB), live(kKiB), hole(62 * kKiB)})
                                  .alloc(kAt, kKiB)
                                  .alloc(kAt + kKiB, kKiB)
                                  .free_requested(kAt + kKiB, kKiB)
                                  .free_completed(kAt + kKiB, kKiB)
                                  .alloc(kAt + kKiB, kKiB)
                                  .build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_EQ(timeline.peak().event, 1);
  EXPECT_EQ(timeline.peak().allocated_bytes, 2 * kKiB);
}

TEST(Timeline, ThePeakMayLieBeforeTheFirstEvent) {
  const Recording recording =
      with_empty_segment().free(kAt, 4 * kKiB).alloc(kAt, 4 * kKiB).free(kAt, 4 * kKiB).build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_EQ(timeline.peak().event, kBeforeFirst) << "equal to what follows, and earlier";
  EXPECT_EQ(timeline.peak().allocated_bytes, 4 * kKiB);
}

// Allocated bytes fall when a free is asked for, not when it completes.
TEST(Timeline, ThePeakLeavesPendingBlocksOut) {
  const Recording recording =
      RecordingBuilder()
          .segment({kAt, kSmall}, {pending(8 * kKiB), live(4 * kKiB), hole(52 * kKiB)})
          .alloc(kAt, 8 * kKiB)
          .free_requested(kAt, 8 * kKiB)
          .alloc(kAt + 8 * kKiB, 4 * kKiB)
          .build();

  EXPECT_EQ(timeline_of(recording).peak().event, 0);
  EXPECT_EQ(timeline_of(recording).peak().allocated_bytes, 8 * kKiB);
}

// The same: active bytes and those asked for them last until the free completes; of the 64 in the
// segment 56 and then 52 are left.
TEST(Timeline, EachLayerHasAPeakOfItsOwn) {
  const Recording recording =
      RecordingBuilder()
          .segment({kAt, kSmall}, {pending(8 * kKiB), live(4 * kKiB), hole(52 * kKiB)})
          .alloc(kAt, 8 * kKiB)
          .free_requested(kAt, 8 * kKiB)
          .alloc(kAt + 8 * kKiB, 4 * kKiB)
          .build();
  const Timeline timeline = timeline_of(recording);
  const PeakLevels& peaks = timeline.peak_levels();

  EXPECT_EQ(peaks.reserved_bytes, 64 * kKiB);
  EXPECT_EQ(peaks.allocated_bytes, exactly(8 * kKiB));
  EXPECT_EQ(peaks.active_bytes, exactly(12 * kKiB));
  EXPECT_EQ(peaks.requested_active_bytes, 12 * kKiB);
  EXPECT_EQ(peaks.inactive_split_bytes, exactly(56 * kKiB));
}

TEST(Timeline, WithoutATraceThereIsOnlyTheEnd) {
  const Recording recording =
      RecordingBuilder().segment({kAt, kSmall}, {live(kKiB), hole(63 * kKiB)}).build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_EQ(timeline.event_count(), 0);
  EXPECT_THAT(states_of(timeline), ElementsAre("@100M L1K H63K"));
  EXPECT_EQ(timeline.peak().event, kBeforeFirst);
}

TEST(Timeline, ADeviceWithNothingIsEmpty) {
  const Recording recording = with_empty_segment().build();

  EXPECT_THAT(states_of(recording, 5), ElementsAre(""));
}

// The free of the first block was not recorded; the hand-out at its place shows that it happened.
TEST(Timeline, AHandOutOnALiveBlockEndsIt) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt, kSmall}, {live(2 * kKiB), hole(62 * kKiB)})
                                  .alloc(kAt, kKiB)
                                  .alloc(kAt, 2 * kKiB)
                                  .build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_THAT(states_of(timeline), ElementsAre("@100M H64K", "@100M L1K H63K", "@100M L2K H62K"));
  EXPECT_EQ(timeline.counts().allocs_on_live_blocks, 1U);
  EXPECT_EQ(timeline.counts().end_mismatches, 0U);
  EXPECT_EQ(timeline.peak_levels().allocated_bytes, exactly(2 * kKiB));
  EXPECT_EQ(timeline.peak_levels().active_bytes, exactly(2 * kKiB));
}

TEST(Timeline, AHandOutOnAPendingBlockEndsIt) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt, kSmall}, {live(2 * kKiB), hole(62 * kKiB)})
                                  .alloc(kAt, kKiB)
                                  .free_requested(kAt, kKiB)
                                  .alloc(kAt, 2 * kKiB)
                                  .alloc(kAt + 2 * kKiB, kKiB)
                                  .free(kAt + 2 * kKiB, kKiB)
                                  .build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_EQ(states_of(timeline).at(2), "@100M P1K H63K");
  EXPECT_EQ(states_of(timeline).at(3), "@100M L2K H62K");
  EXPECT_EQ(timeline.counts().allocs_on_live_blocks, 1U);
  EXPECT_EQ(timeline.peak_levels().allocated_bytes, exactly(3 * kKiB));
  EXPECT_EQ(timeline.peak_levels().active_bytes, exactly(3 * kKiB));
}

// Before the first event a block of 1 KiB must have been there, since it is freed; the second
// free_completed has no block left.
TEST(Timeline, FreesWithoutABlockAreCounted) {
  const Recording recording = with_empty_segment()
                                  .free(kAt, kKiB)
                                  .free_completed(kAt, kKiB)
                                  .free_requested(kAt, kKiB)
                                  .alloc(kAt, kKiB)
                                  .free_requested(kAt, kKiB)
                                  .free_requested(kAt, kKiB)
                                  .free_completed(kAt, kKiB)
                                  .build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_EQ(timeline.counts().unmatched_frees, 3U);
  EXPECT_THAT(states_of(timeline),
              ElementsAre("@100M L1K H63K",
                          "@100M P1K H63K",
                          "@100M H64K",
                          "@100M H64K",
                          "@100M H64K",
                          "@100M L1K H63K",
                          "@100M P1K H63K",
                          "@100M P1K H63K",
                          "@100M H64K"));
}

// Recorded with skip_actions=['free_completed']: each free counts as complete at once.
TEST(Timeline, FreesCountAsCompleteWhereCompletionsWereSkipped) {
  const Recording recording = with_empty_segment()
                                  .alloc(kAt, kKiB)
                                  .free_requested(kAt, kKiB)
                                  .alloc(kAt, 2 * kKiB)
                                  .free_requested(kAt, 2 * kKiB)
                                  .build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_TRUE(timeline.counts().no_free_completed);
  EXPECT_EQ(timeline.counts().allocs_on_live_blocks, 0U);
  EXPECT_THAT(
      states_of(timeline),
      ElementsAre("@100M H64K", "@100M L1K H63K", "@100M H64K", "@100M L2K H62K", "@100M H64K"));
}

// One free only, and its block is pending at the end: it simply has not completed yet.
TEST(Timeline, APendingBlockIsNoSkippedAction) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt, kSmall}, {pending(kKiB), hole(63 * kKiB)})
                                  .alloc(kAt, kKiB)
                                  .free_requested(kAt, kKiB)
                                  .build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_FALSE(timeline.counts().no_free_completed);
  EXPECT_EQ(timeline.counts().end_mismatches, 0U);
  EXPECT_EQ(states_of(timeline).back(), "@100M P1K H63K");
}

// The trace frees the block, the file has it live: the file is right.
TEST(Timeline, ABlockOfTheEndRevives) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt, kSmall}, {live(kKiB), hole(63 * kKiB)})
                                  .alloc(kAt, kKiB)
                                  .free(kAt, kKiB)
                                  .build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_EQ(timeline.counts().end_mismatches, 1U);
  EXPECT_EQ(states_of(timeline).back(), "@100M L1K H63K");
}

TEST(Timeline, ABlockThatTheFileLacksIsCounted) {
  const Timeline timeline = timeline_of(with_empty_segment().alloc(kAt, kKiB).build());

  EXPECT_EQ(timeline.counts().end_mismatches, 1U);
}

TEST(Timeline, ABlockOfAnotherSizeThanTheFileSaysIsCounted) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt, kSmall}, {live(4 * kKiB), hole(60 * kKiB)})
                                  .alloc(kAt, kKiB)
                                  .build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_EQ(timeline.counts().end_mismatches, 1U);
  EXPECT_EQ(states_of(timeline).back(), "@100M L4K H60K");
}

TEST(Timeline, ABlockLargerThanItsHoleIsCountedAndCut) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt}, {hole(5 * kMiB), live(15 * kMiB)})
                                  .alloc(kAt, 6 * kMiB)
                                  .free(kAt, 6 * kMiB)
                                  .build();
  const Timeline timeline = timeline_of(recording);

  EXPECT_GE(timeline.counts().overlapping_blocks, 1U);
  EXPECT_EQ(states_of(timeline).at(1), "@100M L5M L15M") << "states always tile";
}

TEST(Timeline, BlocksInNoSegmentAreLeftOutAndCounted) {
  const Recording recording =
      with_empty_segment().alloc(900 * kMiB, kKiB).free(900 * kMiB, kKiB).build();
  const Timeline timeline = timeline_of(recording);
  std::uint64_t unplaced = 0;

  testing::visit_states(
      timeline, {1}, [&](EventIndex, const HeapState& state) { unplaced = state.unplaced_count; });

  EXPECT_EQ(unplaced, 1U);
  EXPECT_EQ(states_of(timeline).at(1), "@100M H64K");
}

TEST(Timeline, NoticesAClockThatGoesBack) {
  Event early;
  early.action = Action::kSnapshot;
  early.time_us = 1000;
  Event late = early;
  late.time_us = 2000;

  const Recording backwards = with_empty_segment().event(late).event(early).build();
  const Recording forwards =
      with_empty_segment().event(early).event(Action::kSnapshot, 0, 0).event(late).build();

  EXPECT_TRUE(timeline_of(backwards).counts().clock_goes_back);
  EXPECT_FALSE(timeline_of(forwards).counts().clock_goes_back);
}

// The same addresses on two devices are two blocks.
TEST(Timeline, KeepsDevicesApart) {
  const Recording recording =
      RecordingBuilder()
          .segment({kAt, kSmall, false, 0, 0}, {live(kKiB), hole(63 * kKiB)})
          .segment({kAt, kSmall, false, 0, 3}, {hole(64 * kKiB)})
          .on_device(3)
          .alloc(kAt, 2 * kKiB)
          .free(kAt, 2 * kKiB)
          .on_device(0)
          .alloc(kAt, kKiB)
          .build();

  EXPECT_THAT(states_of(recording, 0), ElementsAre("@100M H64K", "@100M L1K H63K"));
  EXPECT_THAT(states_of(recording, 3),
              ElementsAre("@100M H64K", "@100M L2K H62K", "@100M P2K H62K", "@100M H64K"));
}

TEST(Timeline, VisitsOnlyTheStatesAskedFor) {
  const Recording recording = RecordingBuilder()
                                  .segment({kAt, kSmall}, {live(kKiB), live(kKiB), hole(62 * kKiB)})
                                  .alloc(kAt, kKiB)
                                  .alloc(kAt + kKiB, kKiB)
                                  .build();
  std::vector<EventIndex> visited;

  testing::visit_states(
      timeline_of(recording), {1, 1, 2}, [&](EventIndex target, const HeapState& state) {
        visited.push_back(target);
        EXPECT_EQ(state.blocks.size(), target == 1 ? 2U : 3U);
      });

  EXPECT_THAT(visited, ElementsAre(1, 1, 2));
}

TEST(Timeline, KeepsAddressesBeyondTheSignBit) {
  constexpr std::uint64_t kHigh = 0xffff'0000'0000'0000;
  const Recording recording = RecordingBuilder()
                                  .segment({kHigh}, {live(5 * kMiB), hole(15 * kMiB)})
                                  .segment_alloc(kHigh, 20 * kMiB)
                                  .alloc(kHigh, 5 * kMiB)
                                  .build();

  EXPECT_EQ(timeline_of(recording).counts().end_mismatches, 0U);
  EXPECT_EQ(states_of(recording).front(), "");
}

}  // namespace
}  // namespace fragscope::model
