// SPDX-License-Identifier: Apache-2.0
#include "analyzer/course/growth/repeats.hpp"

#include "tests/course/toy_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fragscope::course {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> whole_names(const Repeats& repeats) {
  std::vector<std::string> names;
  for (const Repeat& repeat : repeats.all)
    if (repeat.is_whole()) names.push_back(repeat.name);
  return names;
}

TEST(Repeats, AreStagesWhoseNamesDifferByANumber) {
  ToyServer server;
  server.begin("request 1").use(5).end("request 1").use(50).begin("request 2").use(7);
  server.end("request 2");
  const Repeats repeats = find_repeats(server.history(), {});

  EXPECT_EQ(repeats.basis, RepeatBasis::kStages);
  EXPECT_THAT(whole_names(repeats), ElementsAre("request 1", "request 2"));
  EXPECT_EQ(repeats.all[1].extremes.most_allocated->levels.allocated_bytes.low, 7 * kMiB);
}

TEST(Repeats, OfMarksTheLastHasNoEnd) {
  ToyServer server;
  server.point("request 1").use(5).point("request 2").use(5).point("request 3").use(5);

  EXPECT_THAT(whole_names(find_repeats(server.history(), {})),
              ElementsAre("request 1", "request 2"));
}

TEST(Repeats, AMarkOfAnotherNameEndsTheLast) {
  ToyServer server;
  server.point("request 1").point("token").use(5).point("request 2").point("token").use(5);
  server.point("done").use(500);
  const Repeats repeats = find_repeats(server.history(), {});

  EXPECT_THAT(whole_names(repeats), ElementsAre("request 1", "request 2"));
  EXPECT_EQ(repeats.all[1].extremes.most_allocated->levels.allocated_bytes.low, 5 * kMiB);
}

TEST(Repeats, AreChosenByNameWhereThatIsGiven) {
  ToyServer server;
  server.begin("batch 1").begin("step 1").end("step 1").begin("step 2").end("step 2");
  server.end("batch 1").begin("batch 2").begin("step 3").end("step 3").end("batch 2");

  EXPECT_EQ(find_repeats(server.history(), {}).name, "step #");
  EXPECT_EQ(find_repeats(server.history(), {"batch 7", false}).all.size(), 2U);
  EXPECT_TRUE(find_repeats(server.history(), {"nothing", false}).all.empty());
}

TEST(Repeats, OneStageIsNoRepeat) {
  ToyServer server;
  server.begin("load").use(5).end("load");

  EXPECT_EQ(find_repeats(server.history(), {}).basis, RepeatBasis::kNone);
}

TEST(Repeats, OutOfOrderAreTakenAsTheyCame) {
  ToyServer server;
  for (const char* name : {"request 2", "request 1", "request 3"})
    server.begin(name).use(5).end(name);
  const Repeats repeats = find_repeats(server.history(), {});

  EXPECT_TRUE(repeats.is_out_of_order);
  EXPECT_THAT(whole_names(repeats), ElementsAre("request 2", "request 1", "request 3"));
}

TEST(Repeats, OfTwoThreadsOverlap) {
  ToyServer server;
  server.on_thread(1).begin("request 1").on_thread(2).begin("request 2").use(5);
  server.on_thread(1).end("request 1").on_thread(2).end("request 2");
  const Repeats repeats = find_repeats(server.history(), {});

  EXPECT_EQ(repeats.overlapping, 1U);
  EXPECT_THAT(whole_names(repeats), ElementsAre("request 1", "request 2"));
}

TEST(Repeats, WhereRecordsAreMissingAreNotWhole) {
  ToyServer server;
  server.begin("request 1").use(5).end("request 1").begin("request 2").miss(7).end("request 2");

  EXPECT_THAT(whole_names(find_repeats(server.history(), {})), ElementsAre("request 1"));
}

TEST(Repeats, AnnotationsAreThoseOfPyTorch) {
  ToyServer server;
  for (const char* name : {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"})
    server.begin_annotation(name).use(1).end_annotation(name);
  const Repeats repeats = find_repeats(server.history(), {});

  EXPECT_EQ(repeats.basis, RepeatBasis::kAnnotations);
  EXPECT_EQ(repeats.all.size(), 3U);
}

TEST(Repeats, ByPeriodAreFromAnAllocationThatComesOnceInEach) {
  ToyServer server;
  server.use(3, 90).use(4, 91);
  for (int i = 0; i < 8; ++i) {
    server.use(1, 1);
    for (int layer = 0; layer < 3; ++layer)
      server.use(2, 2).use(2, 3);
    server.use(5, 4).use(6, 5);
  }
  const Repeats repeats = find_repeats(server.history(), {"", true});

  ASSERT_TRUE(repeats.period.has_value());
  EXPECT_EQ(server.function_of(repeats.period->stack), "line 1");
  EXPECT_DOUBLE_EQ(repeats.period->allocations, 9);
  EXPECT_EQ(repeats.period->alike, 3U);
  EXPECT_EQ(repeats.all.size(), 8U);
}

TEST(Repeats, ByPeriodAreNotFoundWhereNothingComesEvenly) {
  ToyServer server;
  std::uint32_t line = 1;
  for (int i = 0; i < 40; ++i)
    server.use(1, line++);

  EXPECT_EQ(find_repeats(server.history(), {"", true}).basis, RepeatBasis::kNone);
}

}  // namespace
}  // namespace fragscope::course
