// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/device/simulated_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace fragscope::policy {
namespace {

using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

/// Where the stream's captured work ends.
std::vector<CaptureNode> ends(const SimulatedStreams& streams, StreamId stream) {
  return streams.capture_ends(stream).value_or(std::vector<CaptureNode>{});
}

TEST(SimulatedStreams, AnEventIsDoneUnlessItsStreamWasHeld) {
  SimulatedStreams streams;
  const EventId before = streams.record(1);
  streams.hold(1);
  const EventId held = streams.record(1);
  const EventId other = streams.record(2);
  EXPECT_TRUE(streams.is_done(before));
  EXPECT_FALSE(streams.is_done(held));
  EXPECT_TRUE(streams.is_done(other));
}

TEST(SimulatedStreams, WaitingForAnEventReleasesItsStream) {
  SimulatedStreams streams;
  streams.hold(1);
  const EventId first = streams.record(1);
  const EventId second = streams.record(1);
  streams.wait(first);
  EXPECT_TRUE(streams.is_done(second));
  EXPECT_TRUE(streams.is_done(streams.record(1)));
}

TEST(SimulatedStreams, WaitingForAllReleasesAll) {
  SimulatedStreams streams;
  streams.hold(1);
  streams.hold(2);
  const EventId first = streams.record(1);
  const EventId second = streams.record(2);
  streams.wait_for_all();
  EXPECT_TRUE(streams.is_done(first));
  EXPECT_TRUE(streams.is_done(second));
}

TEST(SimulatedStreams, OnlyTheCurrentStreamMakesItCapturing) {
  SimulatedStreams streams;
  streams.capture(1);
  EXPECT_FALSE(streams.is_capturing());
  streams.use(1);
  EXPECT_TRUE(streams.is_capturing());
  streams.end_capture();
  EXPECT_FALSE(streams.is_capturing());
}

TEST(SimulatedStreams, OnlyACapturedStreamHasEnds) {
  SimulatedStreams streams;
  EXPECT_EQ(streams.capture_ends(1), std::nullopt);
  streams.capture(1);
  EXPECT_THAT(streams.capture_ends(1), Optional(IsEmpty()));
  streams.capture_work(1);
  EXPECT_THAT(streams.capture_ends(1), Optional(SizeIs(1)));
}

TEST(SimulatedStreams, AStreamThatJoinsEndsInBoth) {
  SimulatedStreams streams;
  streams.capture(1);
  streams.capture_work(1);
  streams.join_capture(1, 2);
  EXPECT_TRUE(streams.is_captured(2));
  streams.capture_work(2);
  EXPECT_THAT(ends(streams, 1), SizeIs(1));
  streams.join_capture(2, 1);
  EXPECT_THAT(ends(streams, 1), SizeIs(2));
}

TEST(SimulatedStreams, ANodePrecedesWhatFollowsOnItsStream) {
  SimulatedStreams streams;
  streams.capture(1);
  streams.capture_work(1);
  const auto first = ends(streams, 1);
  streams.capture_work(1);
  streams.capture_work(1);
  EXPECT_TRUE(streams.precede(first, 1));
}

TEST(SimulatedStreams, ANodeOfAnotherStreamPrecedesOnceItIsWaitedFor) {
  SimulatedStreams streams;
  streams.capture(1);
  streams.capture_work(1);
  streams.join_capture(1, 2);
  streams.capture_work(2);
  const auto other = ends(streams, 2);
  EXPECT_FALSE(streams.precede(other, 1));
  streams.join_capture(2, 1);
  streams.capture_work(1);
  EXPECT_TRUE(streams.precede(other, 1));
}

TEST(SimulatedStreams, NothingPrecedesOnAStreamThatIsNotCaptured) {
  SimulatedStreams streams;
  streams.capture(1);
  streams.capture_work(1);
  EXPECT_FALSE(streams.precede(ends(streams, 1), 2));
}

TEST(SimulatedStreams, ANodeOfAnEarlierCapturePrecedesNothing) {
  SimulatedStreams streams;
  streams.capture(1);
  streams.capture_work(1);
  const auto earlier = ends(streams, 1);
  streams.end_capture();
  streams.capture(1);
  streams.capture_work(1);
  EXPECT_FALSE(streams.precede(earlier, 1));
  EXPECT_TRUE(streams.precede(ends(streams, 1), 1));
}

}  // namespace
}  // namespace fragscope::policy
