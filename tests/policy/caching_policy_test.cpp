// SPDX-License-Identifier: Apache-2.0
// The rules one by one, on heaps small enough to be worked out by hand.
#include "tests/policy/policy_fixture.hpp"

#include <gmock/gmock.h>

namespace fragscope::policy::test {
namespace {

class HitTest : public PolicyTest {};
class MissTest : public PolicyTest {};
class StreamTest : public PolicyTest {};
class PoolTest : public PolicyTest {};
class LimitTest : public PolicyTest {};

// --- Sizes and splits. ---------------------------------------------------------------------------

TEST_F(HitTest, SmallBlocksAreCutFromTwoMebibytes) {
  const Block& first = allocate(1);
  const Block& second = allocate(513);
  EXPECT_EQ(first.address, kBase);
  EXPECT_EQ(first.size, 512U);
  EXPECT_EQ(second.address, kBase + 512);
  EXPECT_EQ(second.size, 1024U);
  EXPECT_EQ(policy().statistics().reserved_bytes.all.current, 2 * kMiB);
  EXPECT_EQ(policy().statistics().inactive_split_bytes.all.current, 2 * kMiB - 1536);
}

TEST_F(HitTest, LargeBlocksAreCutFromTwenty) {
  EXPECT_EQ(allocate(3 * kMiB).size, 3 * kMiB);
  EXPECT_EQ(policy().statistics().reserved_bytes.all.current, 20 * kMiB);
  EXPECT_EQ(allocate(11 * kMiB).size, 11 * kMiB);
  EXPECT_EQ(policy().statistics().segment.all.current, 1);
}

TEST_F(HitTest, ARestOfOneMebibyteIsNotSplitOffALargeBlock) {
  const Block& block = allocate(19 * kMiB);  // asks for 20 MiB
  EXPECT_EQ(block.size, 20 * kMiB);
  EXPECT_EQ(policy().statistics().requested_bytes.all.current, 19 * kMiB);
}

TEST_F(HitTest, TakesTheSmallestBlockThatFits) {
  Block& large = allocate(60 * kMiB);
  Block& medium = allocate(30 * kMiB);
  allocate(12 * kMiB);
  free(large);
  free(medium);
  EXPECT_EQ(allocate(29 * kMiB).address, kBase + 60 * kMiB);
}

// 2.10 on: the oldest segment; before: the lowest address.
TEST_F(HitTest, TakesTheOldestAmongEqualBlocks) {
  for (const auto& [version, expected] : {std::pair{TorchVersion::kTorch215, kBase + 40 * kMiB},
                                          std::pair{TorchVersion::kTorch26, kBase}}) {
    PolicyOptions options;
    options.version = version;
    use(kGiB, options);
    Block& low = allocate(40 * kMiB);
    Block& old = allocate(40 * kMiB);
    free(low);
    EXPECT_TRUE(policy().empty_cache());
    Block& young = allocate(40 * kMiB);  // a younger segment at the lower address
    ASSERT_EQ(young.address, kBase);
    free(young);
    free(old);
    EXPECT_EQ(allocate(40 * kMiB).address, expected);
    EXPECT_EQ(broken_invariant(policy()), "");
  }
}

TEST_F(HitTest, MergesWithFreeNeighboursOnBothSides) {
  Block& a = allocate(512);
  Block& b = allocate(512);
  Block& c = allocate(512);
  free(a);
  free(c);
  free(b);
  EXPECT_EQ(policy().statistics().inactive_split.all.current, 0);
  EXPECT_THAT(policy().blocks(), ::testing::SizeIs(1));
}

TEST_F(HitTest, AnOversizeBlockServesNoSmallRequest) {
  PolicyOptions options;
  options.conf.rules.max_split_size = 100 * kMiB;
  use(kGiB, options);
  free(allocate(200 * kMiB));
  EXPECT_EQ(allocate(50 * kMiB).size, 50 * kMiB);
  EXPECT_EQ(policy().statistics().segment.all.current, 2);
  EXPECT_EQ(policy().statistics().oversize_segments.current, 1);
}

TEST_F(HitTest, AnOversizeBlockServesOneThatWastesLessThanTheRounding) {
  PolicyOptions options;
  options.conf.rules.max_split_size = 100 * kMiB;
  use(kGiB, options);
  free(allocate(200 * kMiB));
  EXPECT_EQ(allocate(181 * kMiB).size, 200 * kMiB);
  EXPECT_EQ(policy().statistics().oversize_allocations.current, 1);
}

// --- Misses. -------------------------------------------------------------------------------------

TEST_F(MissTest, GivesTheCacheBackBeforeItFails) {
  use(100 * kMiB);
  free(allocate(60 * kMiB));
  EXPECT_EQ(allocate(90 * kMiB).size, 90 * kMiB);
  EXPECT_EQ(policy().statistics().num_alloc_retries, 1);
  EXPECT_EQ(policy().statistics().num_ooms, 0);
}

TEST_F(MissTest, FailsWithTheFiguresOfTheMessage) {
  use(100 * kMiB);
  Block& kept = allocate(3 * kMiB);
  EXPECT_EQ(policy().allocate(90 * kMiB, 0), nullptr);
  const AllocationFailure& failure = policy().failure();
  EXPECT_EQ(failure.kind, AllocationFailure::Kind::kOutOfMemory);
  EXPECT_EQ(failure.device_allocation, 90 * kMiB);
  EXPECT_EQ(failure.capacity.free_bytes, 80 * kMiB);
  EXPECT_EQ(failure.capacity.total_bytes, 100 * kMiB);
  EXPECT_EQ(failure.allocated_bytes, kept.size);
  EXPECT_EQ(failure.reserved_bytes, 20 * kMiB);
  EXPECT_FALSE(failure.limit_bytes);
  EXPECT_EQ(policy().statistics().num_ooms, 1);
}

TEST_F(MissTest, RefusesAnExbibyteAtOnce) {
  EXPECT_EQ(policy().allocate(kTooLarge, 0), nullptr);
  EXPECT_EQ(policy().failure().kind, AllocationFailure::Kind::kBeyondAnExbibyte);
  EXPECT_EQ(policy().statistics().num_alloc_retries, 0);
}

// What becomes free only because the release waited for events is not searched again.
TEST_F(MissTest, DoesNotSearchAgainAfterARelease) {
  use(20 * kMiB);
  Block& half = allocate(9 * kMiB);
  Block& rest = allocate(5 * kMiB);
  streams().hold(7);
  policy().record_stream(half, 7);
  free(half);
  EXPECT_EQ(policy().allocate(8 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().statistics().num_sync_all_streams, 1);
  EXPECT_NE(policy().allocate(8 * kMiB, 0), nullptr);  // the same request again
  free(rest);
}

// --- Limits and garbage. -------------------------------------------------------------------------

TEST_F(LimitTest, CountsTheDeviceAllocationNotTheRequest) {
  policy().set_limit(21 * kMiB);
  static_cast<void>(allocate(2 * kMiB));          // 20 MiB
  EXPECT_EQ(policy().allocate(512, 0), nullptr);  // 2 MiB more
  EXPECT_EQ(policy().failure().limit_bytes, 21 * kMiB);
  EXPECT_EQ(policy().failure().device_allocation, 2 * kMiB);
  policy().set_limit(22 * kMiB);
  EXPECT_NE(policy().allocate(512, 0), nullptr);
}

TEST_F(LimitTest, CollectsWhatLayIdleLongest) {
  PolicyOptions options;
  options.conf.garbage_collection_threshold = 0.5;
  use(kGiB, options);
  policy().set_limit(200 * kMiB);
  Block& idle = allocate(60 * kMiB);
  Block& busy = allocate(50 * kMiB);
  free(idle);
  free(busy);
  for (int i = 0; i < 10; ++i)
    free(allocate(45 * kMiB));  // of the 50
  // 110 MiB are held, 100 are the threshold: the block that lay idle goes, the other stays.
  static_cast<void>(allocate(70 * kMiB));
  EXPECT_EQ(policy().statistics().num_device_free, 1);
  EXPECT_EQ(policy().statistics().num_alloc_retries, 0);
  EXPECT_EQ(policy().held_bytes(), 120 * kMiB);
}

// --- Streams. ------------------------------------------------------------------------------------

TEST_F(StreamTest, ABlockServesOnlyItsOwnStream) {
  free(allocate(512, 1));
  EXPECT_EQ(allocate(512, 2).address, kBase + 2 * kMiB);
  EXPECT_EQ(allocate(512, 1).address, kBase);
}

TEST_F(StreamTest, AFreeWaitsForTheStreamsThatUsedTheBlock) {
  Block& block = allocate(512, 1);
  streams().hold(2);
  policy().record_stream(block, 2);
  free(block);
  EXPECT_EQ(policy().statistics().allocation.all.current, 0);
  EXPECT_EQ(policy().statistics().active.all.current, 1);
  EXPECT_NE(allocate(512, 1).address, kBase);
  streams().release(2);
  static_cast<void>(allocate(512, 1));
  EXPECT_EQ(policy().statistics().active.all.current, 2);
}

TEST_F(StreamTest, RecordingItsOwnStreamChangesNothing) {
  Block& block = allocate(512, 1);
  policy().record_stream(block, 1);
  free(block);
  EXPECT_EQ(policy().statistics().active.all.current, 0);
}

TEST_F(StreamTest, ACaptureDefersFreesAndKeepsTheCache) {
  use(100 * kMiB);
  free(allocate(60 * kMiB));
  Block& block = allocate(512, 1);
  policy().record_stream(block, 2);
  streams().capture(0);
  policy().begin_capture();
  free(block);
  EXPECT_EQ(policy().allocate(90 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().statistics().num_alloc_retries, 0);
  streams().end_capture();
  policy().end_capture();
  EXPECT_NE(policy().allocate(90 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().statistics().active.all.current, 1);
}

// --- Private pools. ------------------------------------------------------------------------------

TEST_F(PoolTest, KeepsItsMemoryToItself) {
  const PoolId id{0, 1};
  policy().begin_allocate_to_pool(id, [](StreamId) { return true; });
  Block& inside = allocate(512);
  policy().end_allocate_to_pool(id);
  free(inside);
  EXPECT_EQ(allocate(512).address, kBase + 2 * kMiB);
  EXPECT_TRUE(policy().empty_cache());
  EXPECT_EQ(policy().held_bytes(), 4 * kMiB);
  policy().release_pool(id);
  EXPECT_TRUE(policy().empty_cache());
  EXPECT_EQ(policy().held_bytes(), 2 * kMiB);
}

// The allocator runs inside the user's job: a call that makes no sense must not end it.
TEST_F(PoolTest, WhatIsNotOpenIsNotEnded) {
  const PoolId unknown{0, 9};
  EXPECT_FALSE(policy().end_allocate_to_pool(unknown));
  EXPECT_FALSE(policy().release_pool(unknown));
  EXPECT_FALSE(policy().set_use_on_oom(unknown, true));
  EXPECT_FALSE(policy().set_no_split(unknown, true));
  EXPECT_FALSE(policy().end_capture());
  EXPECT_FALSE(policy().free(kBase));
  policy().create_pool({0, 1});
  EXPECT_TRUE(policy().release_pool({0, 1}));
  EXPECT_FALSE(policy().release_pool({0, 1}));
}

TEST_F(PoolTest, TheScopeOpenedLastIsAskedFirst) {
  for (const auto& [version, owner] : {std::pair{TorchVersion::kTorch215, PoolId{0, 2}},
                                       std::pair{TorchVersion::kTorch26, PoolId{0, 1}}}) {
    PolicyOptions options;
    options.version = version;
    use(kGiB, options);
    policy().begin_allocate_to_pool({0, 1}, [](StreamId) { return true; });
    policy().begin_allocate_to_pool({0, 2}, [](StreamId) { return true; });
    EXPECT_EQ(allocate(512).pool->owner()->id, owner);
  }
}

TEST_F(PoolTest, AFilterLetsOtherStreamsPass) {
  policy().begin_allocate_to_pool({0, 1}, [](StreamId stream) { return stream == 3; });
  EXPECT_EQ(allocate(512, 0).pool->owner(), nullptr);
  EXPECT_NE(allocate(512, 3).pool->owner(), nullptr);
}

TEST_F(PoolTest, LendsToADefaultRequestThatWouldFail) {
  use(40 * kMiB);
  const PoolId id{0, 1};
  policy().begin_allocate_to_pool(id, [](StreamId) { return true; });
  free(allocate(30 * kMiB));
  policy().end_allocate_to_pool(id);
  EXPECT_EQ(policy().allocate(25 * kMiB, 0), nullptr);
  policy().set_use_on_oom(id, true);
  EXPECT_EQ(allocate(25 * kMiB).address, kBase);
}

TEST_F(PoolTest, WithoutSplitsGivesWholeBlocks) {
  const PoolId id{0, 1};
  policy().begin_allocate_to_pool(id, [](StreamId) { return true; });
  policy().set_no_split(id, true);
  EXPECT_EQ(allocate(512).size, 2 * kMiB);
}

}  // namespace
}  // namespace fragscope::policy::test
