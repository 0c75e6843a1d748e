// SPDX-License-Identifier: Apache-2.0
#include "kernels/block_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace fragscope::kernels {
namespace {

using ::testing::HasSubstr;

const std::array kBlocks{
    PackedBlock::live(2).as_first(), PackedBlock::free(3), PackedBlock::free(4).as_first()};

std::string refusal(std::span<const PackedBlock> blocks, std::vector<std::uint64_t> begins) {
  const Result<void> checked = check_table({blocks, begins});
  return checked ? "accepted" : checked.error().describe();
}

TEST(BlockTable, MayBeEmptyInEveryWay) {
  EXPECT_EQ(refusal({}, {}), "accepted");
  EXPECT_EQ(refusal({}, {7}), "accepted");
  EXPECT_EQ(refusal({}, {7, 7, 7}), "accepted");
  EXPECT_EQ(refusal(kBlocks, {7, 7, 9, 9, 10, 10}), "accepted");
}

TEST(BlockTable, RefusesBeginsThatDoNotCoverTheBlocks) {
  EXPECT_THAT(refusal(kBlocks, {}), HasSubstr("groups cover 0 blocks of 3"));
  EXPECT_THAT(refusal(kBlocks, {0, 2}), HasSubstr("groups cover 2 blocks of 3"));
  EXPECT_THAT(refusal(kBlocks, {1, 3}), HasSubstr("groups cover 2 blocks of 3"));
  EXPECT_THAT(refusal(kBlocks, {0, 5, 3}), HasSubstr("group 1 ends at block 3, before it begins"));
  EXPECT_THAT(refusal(kBlocks, {4, 2, 7}), HasSubstr("group 0 ends at block 2, before it begins"));
}

TEST(BlockTable, RefusesAGroupThatBeginsInsideASegment) {
  EXPECT_THAT(refusal(kBlocks, {0, 1, 3}), HasSubstr("group 1 does not begin with the first"));
}

TEST(BlockTable, RefusesBlocksWithoutBytes) {
  EXPECT_THAT(refusal(std::array{kBlocks[0], PackedBlock::free(0)}, {0, 2}),
              HasSubstr("block 1 of group 0 has no bytes"));
}

// One more byte would run into the flags of the scanned words.
TEST(BlockTable, RefusesGroupsWhoseBytesDoNotFitAWord) {
  const std::uint64_t most = PackedBlock::kSizeMask;

  EXPECT_EQ(refusal(std::array{PackedBlock::free(most).as_first()}, {0, 1}), "accepted");
  EXPECT_THAT(refusal(std::array{PackedBlock::free(most).as_first(), PackedBlock::free(1)}, {0, 2}),
              HasSubstr("group 0 has 2^62 bytes or more"));
}

TEST(BlockTable, TellsSegmentsThatAreNotThoseOfTheTable) {
  const std::vector<std::uint64_t> groups{5, 8};
  const BlockTable table{kBlocks, groups};
  const auto refused = [&](std::vector<std::uint64_t> segments) {
    const Result<void> checked = check_segments(table, segments);
    return checked ? "accepted" : checked.error().describe();
  };

  EXPECT_EQ(refused({5, 7, 8}), "accepted");
  EXPECT_THAT(refused({5, 8}), HasSubstr("block 2 is the first of a segment"));
  EXPECT_THAT(refused({5, 6, 7, 8}), HasSubstr("block 1 is not the first of a segment"));
  EXPECT_THAT(refused({0, 2, 3}), HasSubstr("counted from 0, groups from 5"));
  EXPECT_THAT(refused({5, 7}), HasSubstr("segments cover 2 blocks of 3"));
  EXPECT_THAT(refused({}), HasSubstr("segments cover 0 blocks of 3"));
}

}  // namespace
}  // namespace fragscope::kernels
