// SPDX-License-Identifier: Apache-2.0
#include "analyzer/course/stage_memory.hpp"

#include "tests/course/toy_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fragscope::course {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names_of(const StageMemory& memory) {
  std::vector<std::string> names;
  for (const StageGroup& group : memory.groups)
    names.push_back(group.name);
  return names;
}

const StageGroup& group_of(const StageMemory& memory, const std::string& name) {
  for (const StageGroup& group : memory.groups)
    if (group.name == name) return group;
  ADD_FAILURE() << "no stage " << name;
  return memory.groups.front();
}

std::uint64_t peak_mib(const StageGroup& group) {
  return group.highest.extremes.most_allocated->levels.allocated_bytes.low / kMiB;
}

TEST(StageMemory, TellsWhatIsThereForAWhileFromWhatStays) {
  ToyServer server;
  server.begin("weight placement");
  const auto checkpoint = server.alloc(100, 1);
  server.alloc(50, 2);
  server.free(checkpoint).end("weight placement");
  const StageMemory memory = find_stages(server.history());
  const StageGroup& group = group_of(memory, "weight placement");

  EXPECT_EQ(peak_mib(group), 150U);
  EXPECT_EQ(group.most_temporary_bytes, 100 * kMiB);
  EXPECT_EQ(group.stays_bytes, static_cast<std::int64_t>(50 * kMiB));
  EXPECT_EQ(group.stage, stages::Stage::kWeightPlacement);
  ASSERT_EQ(group.temporary.size(), 1U);
  EXPECT_EQ(server.function_of(group.temporary[0].stack), "line 1");
  ASSERT_EQ(group.stays.size(), 1U);
  EXPECT_EQ(server.function_of(group.stays[0].stack), "line 2");
}

TEST(StageMemory, APeakInsideAnInnerStageIsOneOfTheOuterToo) {
  ToyServer server;
  server.begin("outer").use(10).begin("inner").use(70).end("inner").use(20).end("outer");
  const StageMemory memory = find_stages(server.history());

  EXPECT_EQ(peak_mib(group_of(memory, "outer")), 70U);
  EXPECT_EQ(peak_mib(group_of(memory, "inner")), 70U);
}

TEST(StageMemory, APeakBeforeAnInnerStageIsNoneOfIt) {
  ToyServer server;
  server.begin("outer").use(70).begin("inner").use(10).end("inner").end("outer");
  const StageMemory memory = find_stages(server.history());

  EXPECT_EQ(peak_mib(group_of(memory, "outer")), 70U);
  EXPECT_EQ(peak_mib(group_of(memory, "inner")), 10U);
}

TEST(StageMemory, StagesOfTwoThreadsMayOverlap) {
  ToyServer server;
  server.on_thread(1).begin("a").on_thread(2).begin("b").use(30).on_thread(1).end("a");
  server.use(50).on_thread(2).end("b");
  const StageMemory memory = find_stages(server.history());

  EXPECT_EQ(peak_mib(group_of(memory, "a")), 30U);
  EXPECT_EQ(peak_mib(group_of(memory, "b")), 50U);
}

TEST(StageMemory, PutsNumbersOfOneNameTogether) {
  ToyServer server;
  for (const char* name : {"request 1", "request 2", "request 30"}) {
    server.begin(name).use(8);
    server.alloc(2);
    server.end(name);
  }
  const StageMemory memory = find_stages(server.history());
  const StageGroup& group = group_of(memory, "request #");

  EXPECT_EQ(group.count, 3U);
  EXPECT_EQ(group.stays_bytes, static_cast<std::int64_t>(6 * kMiB));
  EXPECT_EQ(peak_mib(group), 12U);
}

TEST(StageMemory, WhatLiesOutsideOfStagesHasItsOwnRows) {
  ToyServer server;
  server.use(1).begin("a").use(2).end("a").use(3).begin("b").use(4).end("b").use(5);

  EXPECT_THAT(
      names_of(find_stages(server.history())),
      ElementsAre("before the first stage", "a", "between stages", "b", "after the last stage"));
}

TEST(StageMemory, MarksAloneLastUntilTheNext) {
  ToyServer server;
  server.use(1).point("checkpoint reading").use(20).point("ready").use(5);
  const StageMemory memory = find_stages(server.history());

  EXPECT_THAT(names_of(memory),
              ElementsAre("before the first mark", "checkpoint reading", "ready"));
  EXPECT_EQ(peak_mib(group_of(memory, "checkpoint reading")), 20U);
  EXPECT_FALSE(group_of(memory, "ready").last.has_end);
  EXPECT_TRUE(memory.points.empty());
}

TEST(StageMemory, AFailureIsInTheInnermostStageOfItsThread) {
  ToyServer server;
  server.on_thread(1).begin("load").on_thread(2).begin("convert").on_thread(1).fail(99);
  server.on_thread(2).end("convert").on_thread(1).end("load");
  const StageMemory memory = find_stages(server.history());

  ASSERT_EQ(memory.failures.size(), 1U);
  EXPECT_EQ(memory.groups[memory.failures[0].group].name, "load");
  EXPECT_TRUE(memory.failures[0].is_of_thread);
  EXPECT_EQ(group_of(memory, "load").failures, 1U);
}

TEST(StageMemory, AFailureOutsideOfStagesIsInItsOwnRow) {
  ToyServer server;
  server.use(1).begin("a").use(2).end("a").fail(90).begin("b").use(3).end("b").fail(91);
  const StageMemory memory = find_stages(server.history());

  ASSERT_EQ(memory.failures.size(), 2U);
  EXPECT_EQ(memory.groups[memory.failures[0].group].name, "between stages");
  EXPECT_EQ(memory.groups[memory.failures[1].group].name, "after the last stage");
  EXPECT_EQ(group_of(memory, "between stages").failures, 1U);
  EXPECT_EQ(group_of(memory, "after the last stage").failures, 1U);
}

TEST(StageMemory, WithoutMarksThereIsOneStage) {
  ToyServer server;
  server.use(1).fail(2);
  const StageMemory memory = find_stages(server.history());

  EXPECT_FALSE(memory.has_stages);
  EXPECT_THAT(names_of(memory), ElementsAre("the whole recording"));
}

TEST(StageMemory, EndsWithoutABeginAreCounted) {
  ToyServer server;
  server.end("a").begin("b").end("c").end("b");

  EXPECT_EQ(find_stages(server.history()).unmatched_ends, 2U);
}

TEST(StageMemory, AStageWhoseHeapIsNotKnownHasNoFigures) {
  ToyServer server;
  server.begin("a").use(5).unknown_changes().end("a");
  const StageMemory memory = find_stages(server.history());

  EXPECT_EQ(group_of(memory, "a").unknown_count, 1U);
  EXPECT_FALSE(group_of(memory, "a").highest.extremes.most_allocated.has_value());
  EXPECT_EQ(memory.gaps, 1U);
}

TEST(StageMemory, MissingRecordsEndWhatWasOpen) {
  ToyServer server;
  server.begin("a").use(5).miss(10).end("a");
  const StageMemory memory = find_stages(server.history());

  EXPECT_EQ(memory.unmatched_ends, 1U);
  EXPECT_FALSE(group_of(memory, "a").last.has_end);
}

TEST(StageMemory, MoreNamesThanAreKeptShareOneRow) {
  ToyServer server;
  for (std::size_t i = 0; i < kMostStageGroups + 20; ++i) {
    std::string name;
    for (std::size_t rest = i; name.size() < 3; rest /= 26)
      name += static_cast<char>('a' + rest % 26);
    server.begin(name).use(1).end(name);
  }
  const StageMemory memory = find_stages(server.history());

  EXPECT_LE(memory.groups.size(), kMostStageGroups);
  EXPECT_EQ(memory.groups.back().name, "(other stages)");
}

}  // namespace
}  // namespace fragscope::course
