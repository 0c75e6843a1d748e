// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/inspect/snapshot.hpp"

#include "tests/policy/policy_fixture.hpp"

#include <gmock/gmock.h>

namespace fragscope::policy::test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class SnapshotTest : public PolicyTest {
 protected:
  void use_expandable() {
    PolicyOptions options;
    options.conf.rules.expandable_segments = true;
    use(kGiB, options);
  }
  std::vector<SegmentSnapshot> take() { return snapshot(policy()); }
};

void expect_block(const BlockSnapshot& block, std::uint64_t size, std::uint64_t requested_size) {
  EXPECT_EQ(block.size, size);
  EXPECT_EQ(block.requested_size, requested_size);
}

TEST_F(SnapshotTest, OfAnEmptyHeapHasNothing) {
  EXPECT_THAT(take(), IsEmpty());
}

TEST_F(SnapshotTest, ShowsASegmentAndItsBlocks) {
  static_cast<void>(allocate(100, 3));
  static_cast<void>(allocate(1000, 3));
  const auto segments = take();
  ASSERT_THAT(segments, SizeIs(1));
  const SegmentSnapshot& segment = segments[0];
  EXPECT_EQ(segment.address, kBase);
  EXPECT_EQ(segment.stream, 3U);
  EXPECT_EQ(segment.size_class, SizeClass::kSmall);
  EXPECT_EQ(segment.pool, PoolId{});
  EXPECT_FALSE(segment.is_expandable);
  EXPECT_EQ(segment.total_size, 2 * kMiB);
  EXPECT_EQ(segment.requested_size, 1100U);
  EXPECT_EQ(segment.allocated_size, 1536U);
  EXPECT_EQ(segment.active_size, 1536U);
  ASSERT_THAT(segment.blocks, SizeIs(3));
  expect_block(segment.blocks[0], 512, 100);
  expect_block(segment.blocks[1], 1024, 1000);
  expect_block(segment.blocks[2], 2 * kMiB - 1536, 0);
  EXPECT_TRUE(segment.blocks[1].is_allocated);
  EXPECT_FALSE(segment.blocks[2].is_active);
}

TEST_F(SnapshotTest, ShowsAPendingBlockAsActiveButNotAllocated) {
  Block& block = allocate(100);
  streams().hold(1);
  policy().record_stream(block, 1);
  free(block);
  const auto segments = take();
  ASSERT_THAT(segments, SizeIs(1));
  EXPECT_EQ(segments[0].allocated_size, 0U);
  EXPECT_EQ(segments[0].active_size, 512U);
  EXPECT_EQ(segments[0].requested_size, 100U);
  EXPECT_FALSE(segments[0].blocks[0].is_allocated);
  EXPECT_TRUE(segments[0].blocks[0].is_active);
}

// Whichever neighbours it joined.
TEST_F(SnapshotTest, ShowsWhatTheLastHolderOfAFreeBlockAskedFor) {
  Block& first = allocate(100);
  Block& second = allocate(200);
  Block& third = allocate(300);
  free(first);
  free(third);
  EXPECT_EQ(take()[0].blocks[2].requested_size, 300U);
  free(second);
  const auto segments = take();
  ASSERT_THAT(segments[0].blocks, SizeIs(1));
  expect_block(segments[0].blocks[0], 2 * kMiB, 200);
}

TEST_F(SnapshotTest, ComesInTheOrderOfAddresses) {
  Block& low = allocate(12 * kMiB);
  static_cast<void>(allocate(14 * kMiB));
  free(low);
  EXPECT_TRUE(policy().empty_cache());
  static_cast<void>(allocate(10 * kMiB));  // younger, but where the first one was
  const auto segments = take();
  ASSERT_THAT(segments, SizeIs(2));
  EXPECT_EQ(segments[0].total_size, 10 * kMiB);
  EXPECT_EQ(segments[1].total_size, 14 * kMiB);
}

TEST_F(SnapshotTest, NamesThePool) {
  policy().begin_allocate_to_pool({4, 2}, [](StreamId) { return true; });
  static_cast<void>(allocate(3 * kMiB));
  const auto segments = take();
  EXPECT_EQ(segments[0].pool, PoolId(4, 2));
  EXPECT_EQ(segments[0].size_class, SizeClass::kLarge);
}

// Of 100 MiB the pages from 40 to 80 went back: [30 live, 10 free], nothing, [10 live, 10 free].
TEST_F(SnapshotTest, SplitsAnExpandableSegmentWhereNothingIsMapped) {
  use_expandable();
  static_cast<void>(allocate(30 * kMiB));
  const Block& middle = allocate(50 * kMiB);
  static_cast<void>(allocate(10 * kMiB));
  free(middle);
  EXPECT_TRUE(policy().empty_cache());
  const auto segments = take();
  ASSERT_THAT(segments, SizeIs(2));
  EXPECT_TRUE(segments[0].is_expandable);
  EXPECT_EQ(segments[0].address, kBase);
  EXPECT_EQ(segments[0].total_size, 40 * kMiB);
  EXPECT_EQ(segments[0].allocated_size, 30 * kMiB);
  EXPECT_EQ(segments[1].address, kBase + 80 * kMiB);
  EXPECT_EQ(segments[1].total_size, 20 * kMiB);
  ASSERT_THAT(segments[1].blocks, SizeIs(2));
  EXPECT_TRUE(segments[1].blocks[0].is_allocated);
}

TEST_F(SnapshotTest, LeavesOutAddressSpaceWithoutMemory) {
  use_expandable();
  device().fail(SimulatedDevice::Fault::kPage, 1, true);
  EXPECT_EQ(policy().allocate(3 * kMiB, 0), nullptr);
  EXPECT_THAT(policy().blocks(), SizeIs(1));
  EXPECT_THAT(take(), IsEmpty());
}

}  // namespace
}  // namespace fragscope::policy::test
