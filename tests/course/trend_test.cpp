// SPDX-License-Identifier: Apache-2.0
#include "analyzer/course/growth/trend.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace fragscope::course {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::vector<std::uint64_t> in_mib(std::vector<std::uint64_t> values) {
  for (std::uint64_t& value : values)
    value *= kMiB;
  return values;
}

void expect_slope(const Slope& slope, const Slope& expected) {
  EXPECT_DOUBLE_EQ(slope.median, expected.median);
  EXPECT_DOUBLE_EQ(slope.low, expected.low);
  EXPECT_DOUBLE_EQ(slope.high, expected.high);
}

// The ten slopes are 1 six times, 9/4, 8/3, 7/2 and 6. Of five values only the outermost slopes
// are an interval of 95 %: all in one order has a chance of 1 in 120, one pair out of order 5.
TEST(TheilSen, OfFiveValuesIsFromTheLeastToTheGreatestSlope) {
  expect_slope(theil_sen(std::vector<double>{1, 2, 3, 4, 10}), {1, 1, 6});
}

// The slope between squares i*i and j*j is i + j: 1, 2, 3, 3, 4, 4, 5, 5, 5, 6, 6, 6 are the
// twelve least of 45. For ten values P(S >= 23) = 0.023 and P(S >= 21) = 0.036, so that the
// interval is from the 12th to the 34th.
TEST(TheilSen, OfTenValuesLeavesElevenSlopesOutOnEachSide) {
  std::vector<double> squares;
  for (int i = 0; i < 10; ++i)
    squares.push_back(i * i);

  expect_slope(theil_sen(squares), {9, 6, 12});
}

TEST(TheilSen, IsNotBentByOneValue) {
  expect_slope(theil_sen(std::vector<double>{5, 5, 5, 5, 5, 5, 5, 5, 5, 500}), {0, 0, 0});
}

TEST(Judge, FiveValuesAreTooFew) {
  EXPECT_EQ(judge(in_mib({1, 2, 3, 4, 5})).trend, Trend::kTooFew);
  EXPECT_EQ(judge({}).trend, Trend::kTooFew);
}

TEST(Judge, EqualValuesAreAPlateauWithoutWarmUp) {
  const Judged judged = judge(in_mib({7, 7, 7, 7, 7, 7}));

  EXPECT_EQ(judged.trend, Trend::kPlateau);
  EXPECT_EQ(judged.warm_up, 0U);
}

TEST(Judge, APlateauAfterAWarmUpIsNoLeak) {
  const Judged judged = judge(in_mib({100, 300, 500, 700, 900, 900, 900, 900, 900, 900, 900, 900}));

  EXPECT_EQ(judged.trend, Trend::kPlateau);
  EXPECT_EQ(judged.warm_up, 3U);
  expect_slope(judged.slope, {0, 0, 0});
}

TEST(Judge, OneHighValueIsNoTrend) {
  for (std::size_t place = 0; place < 10; ++place) {
    std::vector<std::uint64_t> values(10, 100 * kMiB);
    values[place] = 900 * kMiB;

    EXPECT_EQ(judge(values).trend, Trend::kPlateau) << place;
  }
}

TEST(Judge, AKibibyteForEachIsGrowth) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < 10; ++i)
    values.push_back(100 * kMiB + 1024 * i);
  const Judged judged = judge(values);

  EXPECT_EQ(judged.trend, Trend::kGrowth);
  expect_slope(judged.slope, {1024, 1024, 1024});
}

TEST(Judge, GrowthWithADipIsGrowth) {
  EXPECT_EQ(judge(in_mib({10, 12, 14, 16, 18, 20, 15, 24, 26, 28, 30, 32})).trend, Trend::kGrowth);
}

TEST(Judge, WhatFallsDoesNotGrow) {
  EXPECT_EQ(judge(in_mib({30, 28, 26, 24, 22, 20, 18, 16, 14, 12})).trend, Trend::kFall);
}

// It rises by steps, each after five repeats: at the fifteenth the last stretch looks like a
// plateau, as the ones before it did.
TEST(Judge, AStaircaseIsNoPlateau) {
  const std::vector<std::uint64_t> stairs =
      in_mib({0, 0, 0, 0, 0, 10, 10, 10, 10, 10, 20, 20, 20, 20, 20});
  const Judged judged = judge(stairs);

  EXPECT_EQ(judged.trend, Trend::kUndecided);
  EXPECT_EQ(judged.steps, 2U);
}

TEST(Judge, ALongStaircaseIsGrowth) {
  std::vector<std::uint64_t> stairs;
  for (std::uint64_t i = 0; i < 40; ++i)
    stairs.push_back((100 + i / 5 * 10) * kMiB);

  EXPECT_EQ(judge(stairs).trend, Trend::kGrowth);
}

TEST(Judge, GrowthThatHasStoppedIsNotCalledGrowth) {
  const Judged judged =
      judge(in_mib({10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 100, 100, 100, 100, 100, 100}));

  EXPECT_EQ(judged.trend, Trend::kPlateau);
  EXPECT_EQ(judged.warm_up, 9U);
}

// The same with values that differ by more than a hundredth: seven are too few to rule growth out.
TEST(Judge, AShortPlateauThatIsNotQuietIsUndecided) {
  const Judged judged =
      judge(in_mib({10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 100, 103, 97, 100, 100, 100}));

  EXPECT_EQ(judged.trend, Trend::kUndecided);
  EXPECT_TRUE(judged.has_stopped);
}

TEST(Judge, TwoLevelsInTurnAreNoGrowth) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < 20; ++i)
    values.push_back((100 + i % 2 * 40) * kMiB);

  EXPECT_EQ(judge(values).trend, Trend::kPlateau);
  values.resize(10);
  EXPECT_EQ(judge(values).trend, Trend::kUndecided);
}

TEST(Judge, ManyValuesHaveTheSameSlope) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < 2560; ++i)
    values.push_back(kMiB * (50 + i));
  const Judged judged = judge(values);

  EXPECT_EQ(judged.trend, Trend::kGrowth);
  EXPECT_DOUBLE_EQ(judged.slope.median, kMiB);
  EXPECT_EQ(judged.warm_up, 640U);
}

}  // namespace
}  // namespace fragscope::course
