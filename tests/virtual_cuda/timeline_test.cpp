// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/timeline/timeline.hpp"

#include <gtest/gtest.h>

namespace fragscope::virtual_cuda {
namespace {

class TimelineTest : public testing::Test {
 protected:
  Stream& make_stream() {
    const std::uint64_t handle = timeline_.create_stream({.flags = kStreamNonBlocking});
    return *timeline_.find_stream(handle, 0);
  }
  void run_kernel(Stream& stream, std::uint64_t duration_ns) {
    Work work{.kind = NodeKind::kKernel, .duration_ns = duration_ns};
    ASSERT_EQ(timeline_.enqueue(stream, std::move(work), thread_), Status::kSuccess);
  }
  std::uint64_t recorded_event(Stream& stream) {
    const std::uint64_t event = timeline_.create_event(0);
    EXPECT_EQ(timeline_.record(event, stream, 0), Status::kSuccess);
    return event;
  }
  Status query(std::uint64_t event) { return timeline_.query_event(event, thread_); }

  Timeline timeline_{2};
  CaptureThread thread_;
};

TEST_F(TimelineTest, AnEventIsReadyWhenNothingIsBeforeIt) {
  EXPECT_EQ(query(recorded_event(make_stream())), Status::kSuccess);
}

TEST_F(TimelineTest, AnEventThatWasNeverRecordedIsReady) {
  EXPECT_EQ(query(timeline_.create_event(0)), Status::kSuccess);
}

TEST_F(TimelineTest, AnEventWaitsForTheWorkBeforeIt) {
  Stream& stream = make_stream();
  run_kernel(stream, 2'500);
  const std::uint64_t event = recorded_event(stream);

  // Each "not ready" takes a microsecond, so the third one comes too late.
  EXPECT_EQ(query(event), Status::kNotReady);
  EXPECT_EQ(query(event), Status::kNotReady);
  EXPECT_EQ(query(event), Status::kNotReady);
  EXPECT_EQ(query(event), Status::kSuccess);
}

TEST_F(TimelineTest, WaitingMovesTheClockToTheEvent) {
  Stream& stream = make_stream();
  run_kernel(stream, 1'000'000);
  const std::uint64_t event = recorded_event(stream);

  EXPECT_EQ(timeline_.synchronize_event(event, thread_), Status::kSuccess);

  EXPECT_EQ(timeline_.clock().now_ns(), 1'000'000U);
  EXPECT_EQ(query(event), Status::kSuccess);
}

TEST_F(TimelineTest, StreamsRunBesideEachOther) {
  Stream& busy = make_stream();
  run_kernel(busy, 1'000'000);

  EXPECT_EQ(timeline_.query_stream(make_stream(), thread_), Status::kSuccess);
  EXPECT_EQ(timeline_.query_stream(busy, thread_), Status::kNotReady);
}

TEST_F(TimelineTest, AStreamThatWaitsForAnEventFinishesAfterIt) {
  Stream& first = make_stream();
  Stream& second = make_stream();
  run_kernel(first, 5'000);
  ASSERT_EQ(timeline_.wait_event(second, recorded_event(first), 0), Status::kSuccess);
  run_kernel(second, 1'000);

  ASSERT_EQ(timeline_.synchronize_stream(second, thread_), Status::kSuccess);

  EXPECT_EQ(timeline_.clock().now_ns(), 6'000U);
}

TEST_F(TimelineTest, TheLegacyStreamIsOrderedWithBlockingStreamsOnly) {
  Stream& blocking = *timeline_.find_stream(timeline_.create_stream({}), 0);
  Stream& other = make_stream();
  Stream& legacy = *timeline_.find_stream(0, 0);
  run_kernel(blocking, 5'000);
  run_kernel(other, 50'000);
  run_kernel(legacy, 1'000);

  ASSERT_EQ(timeline_.synchronize_stream(legacy, thread_), Status::kSuccess);

  EXPECT_EQ(timeline_.clock().now_ns(), 6'000U);
}

TEST_F(TimelineTest, ADeviceSynchronizesItsOwnStreams) {
  Stream& here = make_stream();
  Stream& there = *timeline_.find_stream(timeline_.create_stream({.device = 1}), 1);
  run_kernel(here, 1'000);
  run_kernel(there, 900'000);

  ASSERT_EQ(timeline_.synchronize_device(0, thread_), Status::kSuccess);

  EXPECT_EQ(timeline_.clock().now_ns(), 1'000U);
}

TEST_F(TimelineTest, ElapsedTimeIsWhatLiesBetween) {
  Stream& stream = make_stream();
  const std::uint64_t start = recorded_event(stream);
  run_kernel(stream, 3'000'000);
  const std::uint64_t end = recorded_event(stream);
  float milliseconds = 0;

  EXPECT_EQ(timeline_.elapsed({start, end}, &milliseconds), Status::kNotReady);
  ASSERT_EQ(timeline_.synchronize_event(end, thread_), Status::kSuccess);
  EXPECT_EQ(timeline_.elapsed({start, end}, &milliseconds), Status::kSuccess);
  EXPECT_FLOAT_EQ(milliseconds, 3.0F);
}

TEST_F(TimelineTest, AnEventWithoutTimingHasNoElapsedTime) {
  Stream& stream = make_stream();
  const std::uint64_t start = recorded_event(stream);
  const std::uint64_t end = timeline_.create_event(kEventDisableTiming);
  ASSERT_EQ(timeline_.record(end, stream, 0), Status::kSuccess);
  float milliseconds = 0;

  EXPECT_EQ(timeline_.elapsed({start, end}, &milliseconds), Status::kInvalidHandle);
}

TEST_F(TimelineTest, AHeldStreamFinishesNothingUntilItIsReleased) {
  Stream& stream = make_stream();
  const std::uint64_t before = recorded_event(stream);
  Timeline::hold(stream);
  const std::uint64_t held = recorded_event(stream);

  EXPECT_EQ(query(before), Status::kSuccess);
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(query(held), Status::kNotReady);

  Timeline::release_hold(stream);
  EXPECT_EQ(query(held), Status::kSuccess);
}

TEST_F(TimelineTest, AHoldReachesStreamsThatWaitForIt) {
  Stream& held = make_stream();
  Stream& waiting = make_stream();
  Timeline::hold(held);
  ASSERT_EQ(timeline_.wait_event(waiting, recorded_event(held), 0), Status::kSuccess);
  const std::uint64_t event = recorded_event(waiting);

  EXPECT_EQ(query(event), Status::kNotReady);
  Timeline::release_hold(held);
  EXPECT_EQ(query(event), Status::kSuccess);
}

// Nothing else could ever end it: the thread that would release it is the one that waits.
TEST_F(TimelineTest, WaitingForHeldWorkEndsTheHold) {
  Stream& stream = make_stream();
  Timeline::hold(stream);
  const std::uint64_t event = recorded_event(stream);

  EXPECT_EQ(timeline_.synchronize_event(event, thread_), Status::kSuccess);

  EXPECT_EQ(query(event), Status::kSuccess);
}

TEST_F(TimelineTest, ActionsComeDueInOrder) {
  Stream& stream = make_stream();
  std::vector<int> seen;
  for (const int i : {1, 2}) {
    Work work{.kind = NodeKind::kHost, .action = [&seen, i] { seen.push_back(i); }};
    ASSERT_EQ(timeline_.enqueue(stream, std::move(work), thread_), Status::kSuccess);
  }

  for (const Action& action : timeline_.due())
    action();

  EXPECT_EQ(seen, (std::vector{1, 2}));
}

TEST_F(TimelineTest, StaleHandlesAreFoundOut) {
  const std::uint64_t stream = timeline_.create_stream({});
  const std::uint64_t event = timeline_.create_event(0);
  ASSERT_EQ(timeline_.destroy_stream(stream), Status::kSuccess);
  ASSERT_EQ(timeline_.destroy_event(event), Status::kSuccess);

  EXPECT_EQ(timeline_.find_stream(stream, 0), nullptr);
  EXPECT_EQ(timeline_.destroy_stream(stream), Status::kInvalidHandle);
  EXPECT_EQ(query(event), Status::kInvalidHandle);
}

// PyTorch orders blocks by stream handle, so a run repeats only if its handles do.
TEST_F(TimelineTest, StreamHandlesFollowFromTheirOrder) {
  Timeline other(2);

  const std::uint64_t first = timeline_.create_stream({});
  EXPECT_EQ(first, other.create_stream({}));
  EXPECT_LT(first, timeline_.create_stream({}));
}

}  // namespace
}  // namespace fragscope::virtual_cuda
