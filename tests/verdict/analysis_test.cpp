// SPDX-License-Identifier: Apache-2.0
// A question from the outside: what it may ask, and that facts and verdict reach the answer.
#include "analyzer/analysis/analysis.hpp"

#include "tests/support/heap_builder.hpp"
#include "tests/support/result_matchers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace fragscope::analysis {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::Contains;
using ::testing::Field;

/// Device 0 ends with one segment of 50: 20 live, 30 free. No events.
model::Recording recording_without_events() {
  model::Recording recording;
  recording.segments = {{.address = 1_GiB, .size_bytes = 50_MiB, .block_count = 2}};
  recording.blocks = {{.address = 1_GiB,
                       .size_bytes = 20_MiB,
                       .requested_bytes = 20_MiB,
                       .state = BlockState::kLive,
                       .has_requested = true},
                      {.address = 1_GiB + 20_MiB, .size_bytes = 30_MiB}};
  return recording;
}

Options asking_for(std::uint64_t request_bytes) {
  Options options;
  options.request_bytes = request_bytes;
  return options;
}

// 24 MiB + 1 byte is rounded to 24 MiB + 512.
TEST(Analyze, RoundsAndAnswersAQuestion) {
  const Result<Analysis> analysis = analyze(recording_without_events(), asking_for(24_MiB + 1));

  ASSERT_THAT(analysis, IsOk());
  ASSERT_EQ(analysis->failures.size(), 1U);
  EXPECT_EQ(analysis->failures[0].question.asked_bytes, 24_MiB + 1);
  EXPECT_EQ(analysis->failures[0].question.size_bytes, 24_MiB + 512);
  EXPECT_EQ(verdict_of(analysis->failures[0].judgement), "servable, proven");
}

// 40 are not there (30), and the driver's 40 come by hand.
TEST(Analyze, UsesFactsGivenByHand) {
  Options options = asking_for(40_MiB);
  options.device_free_bytes = 40_MiB;

  const Result<Analysis> analysis = analyze(recording_without_events(), options);

  ASSERT_THAT(analysis, IsOk());
  ASSERT_EQ(analysis->failures.size(), 1U);
  EXPECT_EQ(rungs_of(analysis->failures[0].judgement), "nyyyyyyyy");
}

TEST(Analyze, HasNoFailuresWithoutEventsOrAQuestion) {
  const Result<Analysis> analysis = analyze(recording_without_events(), {});

  ASSERT_THAT(analysis, IsOk());
  EXPECT_TRUE(analysis->failures.empty());
}

// Such requests never reach the allocator's rules: n = 0 gives null, 2^60 is refused at once.
TEST(Analyze, RefusesRequestsThatNeverReachTheAllocator) {
  EXPECT_THAT(analyze(recording_without_events(), asking_for(0)), FailsWith(ErrorCode::kUsage));
  EXPECT_THAT(analyze(recording_without_events(), asking_for(policy::kTooLarge)),
              FailsWith(ErrorCode::kUsage));
}

TEST(Analyze, RefusesADeviceOrPoolThatIsNotThere) {
  Options other_device = asking_for(24_MiB);
  other_device.device = 3;
  Options other_pool = asking_for(24_MiB);
  other_pool.pool = {0, 9};

  EXPECT_THAT(analyze(recording_without_events(), other_device), FailsWith(ErrorCode::kUsage));
  EXPECT_THAT(analyze(recording_without_events(), other_pool), FailsWith(ErrorCode::kUsage));
}

TEST(Analyze, RefusesAFailureThatWasNotRecorded) {
  Options options = asking_for(24_MiB);
  options.at = Moment{Moment::Kind::kOom, 0};

  EXPECT_THAT(analyze(recording_without_events(), options), FailsWith(ErrorCode::kUsage));
}

TEST(Analyze, SaysThatALogIsAboutSomethingElse) {
  Options options = asking_for(24_MiB);
  options.log_name = "other.log";

  const Result<Analysis> analysis = analyze(recording_without_events(), options);

  ASSERT_THAT(analysis, IsOk());
  EXPECT_THAT(analysis->trust,
              Contains(Field("signal", &model::TrustSignal::signal, "log-mismatch")));
}

}  // namespace
}  // namespace fragscope::analysis
