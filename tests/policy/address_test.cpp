// SPDX-License-Identifier: Apache-2.0
// Requests for an address (docs/policy.md, 4.8 and 4.9), with blocks worked out by hand.
#include "tests/policy/policy_fixture.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace fragscope::policy::test {
namespace {

class AddressTest : public PolicyTest {
 protected:
  /// Sizes of all blocks by address, free ones below zero.
  [[nodiscard]] std::vector<std::int64_t> layout() {
    std::vector<std::int64_t> sizes;
    for (const Block* block : policy().blocks()) {
      const auto size = static_cast<std::int64_t>(block->size);
      sizes.push_back(block->allocated ? size : -size);
    }
    return sizes;
  }
};

TEST_F(AddressTest, GetsWhatWasFreedInTheMiddleOfOneFreeBlock) {
  Block& front = allocate(3729);
  Block& block = allocate(4017);
  const Address wanted = block.address;
  free(block);
  free(front);
  const Block* found = policy().allocate_at(4017, 0, wanted);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->address, wanted);
  EXPECT_EQ(found->requested_size, 4017U);
  EXPECT_EQ(layout(), (std::vector<std::int64_t>{-4096, 4096, -(2 * 1048576 - 8192)}));
  // The 4096 bytes in front were handed out, too, and are back: two hand-outs and a free, after two
  // of each.
  EXPECT_EQ(policy().statistics().allocation.all.allocated, 4);
  EXPECT_EQ(policy().statistics().allocation.all.freed, 3);
}

TEST_F(AddressTest, AtABlocksBeginningNothingIsInFront) {
  const Address wanted = kBase;
  free(allocate(4096));
  ASSERT_NE(policy().allocate_at(512, 0, wanted), nullptr);
  EXPECT_EQ(layout(), (std::vector<std::int64_t>{512, -(2 * 1048576 - 512)}));
}

TEST_F(AddressTest, WhatIsTakenOrTooSmallOrElsewhereIsRefused) {
  const Block& held = allocate(4096);
  EXPECT_EQ(policy().allocate_at(4096, 0, held.address), nullptr);
  EXPECT_EQ(policy().allocate_at(4096, 0, held.address - 512), nullptr);
  EXPECT_EQ(policy().allocate_at(4096, 0, kBase + (std::uint64_t{1} << 40)), nullptr);
  EXPECT_EQ(policy().allocate_at(4096, 0, kBase + 2 * kMiB - 2048), nullptr);
  // Of another stream, or of the other class.
  EXPECT_EQ(policy().allocate_at(4096, 7, kBase + 4096), nullptr);
  EXPECT_EQ(policy().allocate_at(kMiB + 1, 0, kBase + 4096), nullptr);
  EXPECT_EQ(policy().allocate_at(kTooLarge, 0, kBase + 4096), nullptr);
  EXPECT_NE(policy().allocate_at(4096, 0, kBase + 4096), nullptr);
  EXPECT_EQ(policy().statistics().num_ooms, 0);
  EXPECT_EQ(device().used_bytes(), 2 * kMiB);
}

TEST_F(AddressTest, TheFrontIsSplitOffWhateverTheRulesSay) {
  // 20 MiB: 8 in front; with less than 1 MiB left the block keeps it.
  Block& front = allocate(8 * kMiB);
  Block& block = allocate(11 * kMiB + 512);
  const Address wanted = block.address;
  free(front);
  free(block);
  ASSERT_NE(policy().allocate_at(11 * kMiB + 512, 0, wanted), nullptr);
  EXPECT_EQ(layout(),
            (std::vector<std::int64_t>{-static_cast<std::int64_t>(8 * kMiB),
                                       static_cast<std::int64_t>(12 * kMiB)}));
}

TEST_F(AddressTest, ServesFromThePoolThatIsOpen) {
  const PoolId pool{0, 1};
  policy().begin_allocate_to_pool(pool, [](StreamId) { return true; });
  const Address wanted = allocate(4096).address;
  ASSERT_TRUE(policy().free(wanted));
  ASSERT_TRUE(policy().end_allocate_to_pool(pool));
  EXPECT_EQ(policy().allocate_at(4096, 0, wanted), nullptr);
  policy().begin_allocate_to_pool(pool, [](StreamId) { return true; });
  EXPECT_NE(policy().allocate_at(4096, 0, wanted), nullptr);
}

}  // namespace
}  // namespace fragscope::policy::test
