// SPDX-License-Identifier: Apache-2.0
#include "analyzer/difference/difference.hpp"

#include "tests/support/recording_builder.hpp"
#include "tests/support/result_matchers.hpp"

#include <gtest/gtest.h>

#include <string>

namespace fragscope::difference {
namespace {

using test::FailsWith;
using test::IsOk;
using testing::kMiB;
using testing::live;
using testing::RecordingBuilder;

/// A recording with its history.
class Recorded {
 public:
  explicit Recorded(model::Recording recording)
      : recording_(std::move(recording))
      , timeline_(recording_, 0, model::RoundingRule::kCuda) {}
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  [[nodiscard]] Side side() const {
    return {recording_, timeline_, [](model::StackId) { return std::string("here"); }};
  }

 private:
  model::Recording recording_;
  model::Timeline timeline_;
};

model::Recording with_state(std::uint64_t live_mib) {
  return RecordingBuilder()
      .segment({.address = 100 * kMiB}, {live(live_mib * kMiB), testing::hole(2 * kMiB)})
      .build();
}

model::Recording with_history() {
  return RecordingBuilder()
      .segment({.address = 100 * kMiB}, {live(20 * kMiB)})
      .segment_alloc(100 * kMiB, 20 * kMiB)
      .alloc(100 * kMiB, 20 * kMiB)
      .build();
}

TEST(Difference, OfTwoStatesIsAtTheirEnds) {
  const Recorded first(with_state(4));
  const Recorded second(with_state(10));
  const auto found = find_difference(first.side(), second.side(), std::nullopt);

  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->moment, Moment::kEnd);
  EXPECT_EQ(found->first.summary.allocated_bytes.low, 4 * kMiB);
  EXPECT_EQ(found->second.summary.allocated_bytes.low, 10 * kMiB);
  ASSERT_EQ(found->holders.size(), 1U);
  EXPECT_EQ(found->holders[0].first_bytes, 4 * kMiB);
  EXPECT_EQ(found->holders[0].second_bytes, 10 * kMiB);
  ASSERT_EQ(found->segments.size(), 1U);
  EXPECT_EQ(found->segments[0].second_bytes, 12 * kMiB);
}

TEST(Difference, OfHistoriesIsAtTheirPeaks) {
  const Recorded first(with_history());
  const Recorded second(with_history());
  const auto found = find_difference(first.side(), second.side(), std::nullopt);

  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->moment, Moment::kPeak);
  EXPECT_EQ(found->first.event, 2);
}

TEST(Difference, AtAMomentThatOneLacksIsRefused) {
  const Recorded first(with_history());
  const Recorded second(with_state(4));

  const auto at_peak = find_difference(first.side(), second.side(), Moment::kPeak);
  const auto at_failure = find_difference(first.side(), second.side(), Moment::kFailure);

  ASSERT_THAT(at_peak, FailsWith(ErrorCode::kUsage));
  EXPECT_EQ(at_peak.error().message, "B has no history");
  ASSERT_THAT(at_failure, FailsWith(ErrorCode::kUsage));
  EXPECT_EQ(at_failure.error().message, "A has no failed request");
}

}  // namespace
}  // namespace fragscope::difference
