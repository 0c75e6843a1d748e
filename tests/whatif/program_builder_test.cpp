// SPDX-License-Identifier: Apache-2.0
// What events become: which op went to the driver, who gave memory back, when a slot is free again.
#include "analyzer/whatif/program/program_builder.hpp"

#include "analyzer/whatif/program/dependence.hpp"
#include "analyzer/whatif/recorded/settle.hpp"
#include "analyzer/whatif/recorded/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace fragscope::whatif::test {
namespace {

using policy::kGiB;
using policy::kMiB;
using ::testing::ElementsAre;
using Kind = DeviceCall::Kind;

std::vector<OpKind> kinds(const Program& program) {
  std::vector<OpKind> list;
  list.reserve(program.ops.size());
  for (const Op& op : program.ops)
    list.push_back(op.kind);
  return list;
}

class ProgramBuilderTest : public ::testing::Test {
 protected:
  void get_segment(policy::Address address, std::uint64_t size) {
    builder_.device_call(Kind::kAllocate, address, size, 0, {});
  }
  void give_segment(policy::Address address, std::uint64_t size) {
    builder_.device_call(Kind::kFree, address, size, 0, {});
  }
  void allocate(policy::Address address, std::uint64_t size) {
    builder_.allocate(address, size, {});
  }
  void free_at_once(policy::Address address) {
    builder_.free(address);
    builder_.complete(address);
  }
  /// One block of its own segment, given back to the cache.
  void cache(policy::Address address, std::uint64_t size) {
    get_segment(address, size);
    allocate(address, size);
    free_at_once(address);
  }
  [[nodiscard]] Program finish() {
    Program program = builder_.finish();
    settle(program);
    return program;
  }

  ProgramBuilder builder_;
};

TEST_F(ProgramBuilderTest, SlotsAreUsedAgain) {
  cache(kGiB, 100 * kMiB);
  allocate(kGiB, 100 * kMiB);
  const Program program = finish();
  EXPECT_EQ(program.slot_count, 1U);
  EXPECT_THAT(kinds(program), ElementsAre(OpKind::kAllocate, OpKind::kFree, OpKind::kAllocate));
  EXPECT_FALSE(verify(program).first);
}

TEST_F(ProgramBuilderTest, ASlotWhoseFreeIsPendingIsNotUsedAgain) {
  get_segment(kGiB, 100 * kMiB);
  allocate(kGiB, 100 * kMiB);
  builder_.record_stream(kGiB, 7);
  builder_.free(kGiB);
  get_segment(2 * kGiB, 100 * kMiB);
  allocate(2 * kGiB, 100 * kMiB);
  builder_.complete(kGiB);
  allocate(kGiB, 100 * kMiB);
  const Program program = finish();
  EXPECT_EQ(program.slot_count, 2U);
  EXPECT_THAT(kinds(program),
              ElementsAre(OpKind::kAllocate,
                          OpKind::kRecordStream,
                          OpKind::kFree,
                          OpKind::kAllocate,
                          OpKind::kComplete,
                          OpKind::kAllocate));
  EXPECT_FALSE(verify(program).first);
}

TEST_F(ProgramBuilderTest, MemoryThatGoesBackByItselfIsTheProgramsDoing) {
  cache(kGiB, 100 * kMiB);
  give_segment(kGiB, 100 * kMiB);
  builder_.mark("next", 0);
  const Program program = finish();
  EXPECT_THAT(kinds(program),
              ElementsAre(OpKind::kAllocate, OpKind::kFree, OpKind::kEmptyCache, OpKind::kMark));
  EXPECT_FALSE(verify(program).first);
}

TEST_F(ProgramBuilderTest, WhatOnePoolAloneGivesBackIsItsRelease) {
  constexpr policy::PoolId kPool{0, 1};
  cache(kGiB, 100 * kMiB);
  builder_.device_call(DeviceCall::Kind::kAllocate, 2 * kGiB, 100 * kMiB, 0, kPool);
  builder_.allocate(2 * kGiB, 100 * kMiB, {0, kPool});
  builder_.free(2 * kGiB);
  builder_.complete(2 * kGiB);
  builder_.device_call(DeviceCall::Kind::kFree, 2 * kGiB, 100 * kMiB, 0, kPool);
  builder_.mark("next", 0);
  const Program program = finish();
  EXPECT_THAT(kinds(program),
              ElementsAre(OpKind::kAllocate,
                          OpKind::kFree,
                          OpKind::kAllocate,
                          OpKind::kFree,
                          OpKind::kReleasePool,
                          OpKind::kEmptyCache,
                          OpKind::kUsePool,
                          OpKind::kMark));
  EXPECT_FALSE(verify(program).first);
}

TEST_F(ProgramBuilderTest, AReleaseThatTheCacheMadeUnnecessaryWasTheProgramsToo) {
  cache(kGiB, 100 * kMiB);
  give_segment(kGiB, 100 * kMiB);
  cache(2 * kGiB, 100 * kMiB);  // The segment that went back would have served it.
  const Program program = finish();
  EXPECT_EQ(program.ops[2].kind, OpKind::kEmptyCache);
  EXPECT_EQ(program.doubts.size(), 1U);
  EXPECT_FALSE(verify(program).first);
}

TEST_F(ProgramBuilderTest, AReleaseThatARequestNeededIsItsOwn) {
  cache(kGiB, 100 * kMiB);
  give_segment(kGiB, 100 * kMiB);
  cache(2 * kGiB, 200 * kMiB);
  const Program program = finish();
  EXPECT_EQ(program.ops[2].kind, OpKind::kRelease);
  EXPECT_FALSE(verify(program).first);
}

TEST_F(ProgramBuilderTest, ARefusalThatGaveNothingBackWasWithinACapture) {
  cache(kGiB, 100 * kMiB);
  builder_.fail(200 * kMiB, {});
  const Program program = finish();
  EXPECT_TRUE(program.ops.back().in_capture);
  EXPECT_FALSE(verify(program).first);
}

TEST_F(ProgramBuilderTest, ARefusalThatGaveEverythingBackWasNot) {
  cache(kGiB, 100 * kMiB);
  give_segment(kGiB, 100 * kMiB);
  builder_.fail(200 * kMiB, {});
  const Program program = finish();
  EXPECT_FALSE(program.ops.back().in_capture);
  EXPECT_FALSE(verify(program).first);
}

TEST_F(ProgramBuilderTest, PagesShowThatSegmentsAreExpandable) {
  builder_.device_call(Kind::kMap, kGiB, 20 * kMiB, kGiB, {});
  allocate(kGiB, 20 * kMiB);
  get_segment(4 * kGiB, 100 * kMiB);
  allocate(4 * kGiB, 100 * kMiB);
  const Program program = finish();
  EXPECT_THAT(
      kinds(program),
      ElementsAre(OpKind::kExpandable, OpKind::kAllocate, OpKind::kExpandable, OpKind::kAllocate));
  EXPECT_FALSE(verify(program).first);
}

TEST_F(ProgramBuilderTest, AFreeOfNothingIsCounted) {
  free_at_once(kGiB);
  EXPECT_EQ(builder_.unknown_frees(), 1U);
  EXPECT_TRUE(finish().ops.empty());
}

TEST(ProgramBuilder, AddressSpacesDoNotReachIntoEachOther) {
  model::HeapState heap;
  const model::Home home{
      .pool = model::kDefaultPool, .size_class = model::SizeClass::kLarge, .expandable = true};
  for (const std::uint64_t address : {64 * kGiB, 128 * kGiB}) {
    model::HeapSegment& segment = heap.segments.emplace_back();
    segment.address = address;
    segment.size_bytes = 20 * kMiB;
    segment.home = home;
    segment.first_block = static_cast<std::uint32_t>(heap.blocks.size());
    segment.block_count = 1;
    model::HeapBlock& block = heap.blocks.emplace_back();
    block.address = address;
    block.size_bytes = 20 * kMiB;
    block.requested_bytes = 20 * kMiB;
    block.state = model::BlockState::kLive;
  }
  // The device's memory is not known, and what is taken for it is more than lies between them.
  ProgramBuilder builder;
  const std::array pools{model::PoolId{}};
  builder.begin_with(heap, pools, {});
  const Program program = builder.finish();

  ASSERT_EQ(program.start.segments.size(), 2U);
  EXPECT_EQ(program.start.segments[0].size, 64 * kGiB);
  EXPECT_TRUE(is_sound(program.start));
}

TEST(HeapImage, MustBePossible) {
  using policy::is_sound;
  policy::ImageSegment plain;
  plain.address = kGiB;
  plain.size = 4 * kMiB;
  plain.blocks = {{kGiB, kMiB}, {kGiB + kMiB, 3 * kMiB}};
  policy::ImageSegment space = plain;
  space.address = 2 * kGiB;
  space.size = kGiB;
  space.page_size = 2 * kMiB;
  space.blocks = {{2 * kGiB + 4 * kMiB, 2 * kMiB}};
  EXPECT_TRUE(is_sound({{plain, space}}));
  EXPECT_FALSE(is_sound({{plain, plain}}));
  policy::ImageSegment broken = plain;
  broken.blocks.pop_back();
  EXPECT_FALSE(is_sound({{broken}})) << "a plain segment has no gap";
  broken = plain;
  broken.blocks[1].size += kMiB;
  EXPECT_FALSE(is_sound({{broken}}));
  broken = space;
  broken.address = kGiB - kMiB;
  broken.blocks = plain.blocks;
  EXPECT_FALSE(is_sound({{plain, broken}})) << "blocks of two segments";
  broken.address = ~policy::Address{0} - kMiB;
  EXPECT_FALSE(is_sound({{broken}}));
}

TEST(Dependence, IsARefusalThatTheProgramSurvived) {
  ProgramBuilder builder;
  builder.at(0);
  builder.fail(kGiB, {});
  EXPECT_TRUE(dependences_of(builder.program()).empty());  // It may have ended it.
  builder.at(1);
  builder.allocate(kGiB, kMiB, {});
  builder.at(2);
  builder.fail(kGiB, {});
  const auto found = dependences_of(builder.finish());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().kind, "survived-refusal");
  EXPECT_EQ(found.front().count, 1U);
  EXPECT_EQ(found.front().first_event, 0);
}

TEST(Dependence, IsACacheThatTheProgramGaveBack) {
  Program program;
  program.first_event = 40;
  program.ops.resize(3);
  program.ops[1].kind = OpKind::kEmptyCache;
  program.ops[1].event = 7;
  program.ops[2].kind = OpKind::kRelease;
  const auto found = dependences_of(program);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().kind, "empty-cache");
  EXPECT_EQ(found.front().first_event, 47);
}

}  // namespace
}  // namespace fragscope::whatif::test
