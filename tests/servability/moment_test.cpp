// SPDX-License-Identifier: Apache-2.0
// Moments worked out by hand on small recordings.
#include "analyzer/servability/moment.hpp"

#include "tests/support/recording_builder.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace fragscope::servability {
namespace {

using model::CourseKind;
using model::EventIndex;
using testing::hole;
using testing::kMiB;
using testing::live;
using testing::RecordingBuilder;

constexpr std::uint64_t kBase = 1000 * kMiB;

Moment moment_of(const model::Recording& recording, const Watch& watch) {
  const model::Timeline timeline(recording, 0, model::RoundingRule::kCuda);
  return find_moments(timeline, std::vector{watch}, recording.settings.rules).front();
}

Watch watch_of(std::uint64_t mib, EventIndex until, const DriverRoom& room = {}) {
  return {{mib * kMiB, model::kDefaultPool, 0}, room, until};
}

/// A segment of 100 MiB: 40 MiB in use, then freed; then 4 MiB are put where they were.
RecordingBuilder pinned() {
  RecordingBuilder builder;
  builder.segment({.address = kBase},
                  {live(4 * kMiB), hole(36 * kMiB), live(30 * kMiB), hole(30 * kMiB)});
  builder
      .segment_alloc(kBase, 100 * kMiB)     // 0
      .alloc(kBase, 40 * kMiB)              // 1
      .alloc(kBase + 40 * kMiB, 30 * kMiB)  // 2
      .free(kBase, 40 * kMiB)               // 3, 4
      .alloc(kBase, 4 * kMiB);              // 5
  return builder;
}

TEST(Moment, IsTheHandOutThatCutTheLastHole) {
  const Moment moment = moment_of(pinned().build(), watch_of(38, 6));
  ASSERT_TRUE(moment.to_no);
  EXPECT_EQ(moment.to_no->cause.event, 5);
  EXPECT_EQ(moment.to_no->cause.kind, CourseKind::kAlloc);
  EXPECT_EQ(moment.to_no->cause.size_bytes, 4 * kMiB);
  EXPECT_EQ(moment.to_no->before, Server::kHole);
  EXPECT_EQ(moment.to_no->run_before_bytes, 40 * kMiB);
  EXPECT_EQ(moment.last, Server::kNobody);
  // No before the segment; yes beside 40 MiB; no beside 70; yes after the free; no.
  EXPECT_EQ(moment.turn_count, 4U);
  EXPECT_EQ(moment.known_from, std::optional<EventIndex>(model::kBeforeFirst));
}

TEST(Moment, IsNoneWhileAHoleWouldServe) {
  const Moment moment = moment_of(pinned().build(), watch_of(36, 6));
  EXPECT_FALSE(moment.to_no);
  EXPECT_EQ(moment.last, Server::kHole);
}

TEST(Moment, CountsNoEventFromTheFailureOn) {
  const Moment moment = moment_of(pinned().build(), watch_of(38, 5));
  EXPECT_FALSE(moment.to_no);
  EXPECT_EQ(moment.last, Server::kHole);
}

TEST(Moment, NeverPossibleIsSaid) {
  const Moment moment = moment_of(pinned().build(), watch_of(101, 6));
  EXPECT_FALSE(moment.to_no);
  EXPECT_EQ(moment.turn_count, 0U);
  EXPECT_EQ(moment.first, Server::kNobody);
  EXPECT_EQ(moment.last, Server::kNobody);
}

// 8 MiB are free at the end, so 108 MiB were before the segment came: 60 would have been served by
// the driver then. The segment takes that, and its first block takes the segment's hole of 100.
TEST(Moment, WhenTheDriverRanOutTheRequestThatNeededTheSegmentDidIt) {
  const Moment moment =
      moment_of(pinned().build(), watch_of(61, 6, {8 * kMiB, 100 * kMiB, std::nullopt}));
  ASSERT_TRUE(moment.to_no);
  EXPECT_EQ(moment.first, Server::kDriver);
  EXPECT_EQ(moment.to_no->before, Server::kDriver);
  EXPECT_EQ(moment.to_no->driver_before_bytes, 108 * kMiB);
  EXPECT_EQ(moment.to_no->cause.event, 1);
  EXPECT_EQ(moment.to_no->cause.size_bytes, 40 * kMiB);
  EXPECT_EQ(moment.turn_count, 1U);
}

TEST(Moment, TheLimitCountsAsTheDriverDoes) {
  const DriverRoom room{500 * kMiB, 100 * kMiB, 120 * kMiB};
  const Moment moment = moment_of(pinned().build(), watch_of(61, 6, room));
  ASSERT_TRUE(moment.to_no);
  EXPECT_EQ(moment.to_no->cause.event, 1);
  EXPECT_EQ(moment.to_no->driver_before_bytes, 120 * kMiB);
}

TEST(Moment, ASegmentOfAnotherStreamTakesTheDriversMemory) {
  RecordingBuilder builder;
  builder.segment({.address = kBase, .stream = 5}, {live(50 * kMiB)});
  model::Event segment;
  segment.action = model::Action::kSegmentAlloc;
  segment.address = kBase;
  segment.size_bytes = 50 * kMiB;
  segment.has_address = true;
  segment.stream = 5;
  model::Event block = segment;
  block.action = model::Action::kAlloc;
  builder.event(segment).event(block);
  const Moment moment =
      moment_of(builder.build(), watch_of(30, 2, {10 * kMiB, 50 * kMiB, std::nullopt}));
  ASSERT_TRUE(moment.to_no);
  EXPECT_EQ(moment.to_no->cause.event, 1);
  EXPECT_EQ(moment.to_no->driver_before_bytes, 60 * kMiB);
}

TEST(Moment, AFreeSegmentGivenBackIsNotAnEnd) {
  RecordingBuilder builder;
  builder.segment_alloc(kBase, 50 * kMiB)
      .alloc(kBase, 50 * kMiB)
      .free(kBase, 50 * kMiB)
      .segment_free(kBase, 50 * kMiB);
  const Moment moment = moment_of(builder.build(), watch_of(50, 5, {50 * kMiB, 0, std::nullopt}));
  EXPECT_FALSE(moment.to_no);
  EXPECT_EQ(moment.last, Server::kDriver);
  EXPECT_EQ(moment.turn_count, 2U);  // no while the block was there
}

TEST(Moment, ManyAreFoundInOneWalk) {
  const model::Recording recording = pinned().build();
  const model::Timeline timeline(recording, 0, model::RoundingRule::kCuda);
  const std::vector<Watch> watches{watch_of(38, 6), watch_of(36, 6), watch_of(61, 6)};
  const std::vector<Moment> moments = find_moments(timeline, watches, recording.settings.rules);
  ASSERT_EQ(moments.size(), 3U);
  EXPECT_EQ(moments[0].to_no->cause.event, 5);
  EXPECT_FALSE(moments[1].to_no);
  EXPECT_FALSE(moments[2].to_no);  // 100 MiB were never seen whole: the segment came for 40
}

}  // namespace
}  // namespace fragscope::servability
