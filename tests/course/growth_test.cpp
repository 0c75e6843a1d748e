// SPDX-License-Identifier: Apache-2.0
#include "analyzer/course/growth/growth.hpp"

#include "tests/course/toy_server.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace fragscope::course {
namespace {

/// Requests that a function serves, each as a stage.
template <class Serve>
Growth growth_of(ToyServer& server, int requests, Serve serve) {
  for (int i = 1; i <= requests; ++i) {
    const std::string name = "request " + std::to_string(i);
    server.begin(name);
    serve(i);
    server.end(name);
  }
  return find_growth(server.history(), {});
}

TEST(Growth, TenEqualRequestsAreAPlateau) {
  ToyServer server;
  server.alloc(100);

  const Growth growth = growth_of(server, 10, [&](int) { server.use(20); });

  EXPECT_EQ(growth.kind, GrowthKind::kPlateau);
  EXPECT_TRUE(growth.stacks.empty());
}

TEST(Growth, ShortAndLongOnesInTurnAreAPlateau) {
  ToyServer server;
  server.alloc(100);

  const Growth growth = growth_of(server, 20, [&](int i) {
    server.use(i <= 10 ? 20 : i % 2 == 0 ? 10 : 80);
  });

  EXPECT_EQ(growth.kind, GrowthKind::kPlateau);
  EXPECT_EQ(growth.low.judged.warm_up, 0U);
}

// The answer of each request lives until the next has its own, so that the end of a request says
// how long it was. Its low point does not.
TEST(Growth, AnAnswerThatIsKeptUntilTheNextIsNoLeak) {
  ToyServer server;
  server.alloc(100);
  std::uint64_t answer = server.alloc(10);

  const Growth growth = growth_of(server, 10, [&](int i) {
    const std::uint64_t next = server.alloc(i % 2 == 0 ? 10 : 80);
    server.free(answer);
    answer = next;
  });

  EXPECT_EQ(growth.kind, GrowthKind::kPlateau);
}

TEST(Growth, NamesTheOneOfTwoStacksThatGrows) {
  ToyServer server;
  server.alloc(100);
  std::vector<std::uint64_t> recent;

  const Growth growth = growth_of(server, 10, [&](int) {
    server.alloc(3, 7);
    recent.push_back(server.alloc(40, 8));
    if (recent.size() < 3) return;
    server.free(recent.front());
    recent.erase(recent.begin());
  });

  EXPECT_EQ(growth.kind, GrowthKind::kGrowth);
  ASSERT_EQ(growth.stacks.size(), 1U);
  EXPECT_EQ(server.function_of(growth.stacks[0].stack), "line 7");
  EXPECT_DOUBLE_EQ(growth.stacks[0].slope.median, 3 * kMiB);
  EXPECT_DOUBLE_EQ(growth.low.judged.slope.median, 3 * kMiB);
}

TEST(Growth, OfTheCacheAloneIsNoLeak) {
  ToyServer server;
  server.alloc(100);

  const Growth growth = growth_of(server, 10, [&](int) { server.use(5).get_segment(40); });

  EXPECT_EQ(growth.kind, GrowthKind::kCacheGrowth);
  EXPECT_EQ(growth.low.judged.trend, Trend::kPlateau);
  EXPECT_DOUBLE_EQ(growth.reserved.judged.slope.median, 40 * kMiB);
}

TEST(Growth, OneRequestThatKeepsMuchIsNoTrend) {
  ToyServer server;
  server.alloc(100);

  const Growth growth = growth_of(server, 12, [&](int i) {
    server.use(5);
    if (i == 2) server.alloc(500);
  });

  EXPECT_EQ(growth.kind, GrowthKind::kPlateau);
  EXPECT_LE(growth.low.judged.warm_up, 2U);
}

TEST(Growth, OneRepeatIsTooFew) {
  ToyServer server;
  server.begin("request 1").use(5).end("request 1").begin("request 2").use(5);

  EXPECT_EQ(find_growth(server.history(), {}).kind, GrowthKind::kTooFew);
}

TEST(Growth, WithoutMarksThereAreNoRepeats) {
  ToyServer server;
  server.use(5);

  EXPECT_EQ(find_growth(server.history(), {}).kind, GrowthKind::kNoRepeats);
}

/// Ten requests over so much that is live all the while.
Growth run_at(std::uint64_t mib) {
  ToyServer server;
  server.alloc(mib);
  return growth_of(server, 10, [&](int) { server.use(20); });
}

TEST(Control, ThatComesBackShowsTheDifference) {
  const std::vector<Growth> runs = {run_at(1000), run_at(1400), run_at(1000)};
  const std::vector<Control> layers = compare_with_control(runs);

  ASSERT_EQ(layers.size(), 3U);
  EXPECT_TRUE(layers[0].comes_back);
  EXPECT_TRUE(layers[0].differs);
  EXPECT_EQ(layers[0].noise_bytes, 10 * kMiB);
}

TEST(Control, ThatDoesNotComeBackShowsNothing) {
  const std::vector<Growth> runs = {run_at(1000), run_at(1400), run_at(1400)};

  EXPECT_FALSE(compare_with_control(runs)[0].comes_back);
  EXPECT_FALSE(compare_with_control(runs)[0].differs);
}

TEST(Control, TakesThreeRuns) {
  EXPECT_TRUE(compare_with_control(std::vector<Growth>(2)).empty());
  EXPECT_TRUE(compare_with_control(std::vector<Growth>(3)).empty());
}

}  // namespace
}  // namespace fragscope::course
