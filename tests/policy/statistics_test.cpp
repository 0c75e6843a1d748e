// SPDX-License-Identifier: Apache-2.0
// What resetting does to the counters, and those of private pools.
#include "tests/policy/policy_fixture.hpp"

#include <gmock/gmock.h>

namespace fragscope::policy::test {
namespace {

constexpr PoolId kPool{0, 1};

class StatisticsTest : public PolicyTest {
 protected:
  void open_pool() {
    policy().begin_allocate_to_pool(kPool, [](StreamId) { return true; });
  }
  void forget_pool() {
    policy().end_allocate_to_pool(kPool);
    policy().release_pool(kPool);
    EXPECT_TRUE(policy().empty_cache());
  }
  Statistics& statistics() { return policy().statistics(); }
  ClassCounters& pool() { return statistics().reserved_bytes_by_pool.at(kPool); }
};

TEST_F(StatisticsTest, CountEveryIncreaseAndDecrease) {
  free(allocate(3 * kMiB));
  free(allocate(2 * kMiB));
  const Counter& counter = statistics().allocated_bytes.all;
  EXPECT_EQ(counter.current, 0);
  EXPECT_EQ(counter.peak, 3 * kMiB);
  EXPECT_EQ(counter.allocated, 5 * kMiB);
  EXPECT_EQ(counter.freed, 5 * kMiB);
}

TEST_F(StatisticsTest, AResetOfPeaksBringsThemToWhatIs) {
  free(allocate(3 * kMiB));
  statistics().reset_peaks();
  EXPECT_EQ(statistics().allocated_bytes.all.peak, 0);
  EXPECT_EQ(statistics().reserved_bytes.all.peak, 20 * kMiB);
  EXPECT_EQ(statistics().reserved_bytes.by_class[1].peak, 20 * kMiB);
  EXPECT_EQ(statistics().allocated_bytes.all.allocated, 3 * kMiB);
}

TEST_F(StatisticsTest, AResetOfSumsLeavesCurrentAndPeak) {
  static_cast<void>(allocate(3 * kMiB));
  statistics().reset_accumulated();
  const Counter& counter = statistics().allocated_bytes.all;
  EXPECT_EQ(counter.allocated, 0);
  EXPECT_EQ(counter.freed, 0);
  EXPECT_EQ(counter.current, 3 * kMiB);
  EXPECT_EQ(counter.peak, 3 * kMiB);
}

TEST_F(StatisticsTest, AResetOfSumsClearsTheCounts) {
  free(allocate(3 * kMiB));
  EXPECT_EQ(policy().allocate(2 * kGiB, 0), nullptr);
  EXPECT_EQ(statistics().num_alloc_retries, 1);
  EXPECT_EQ(statistics().num_ooms, 1);
  EXPECT_EQ(statistics().num_sync_all_streams, 1);
  EXPECT_EQ(statistics().num_device_alloc, 1);
  EXPECT_EQ(statistics().num_device_free, 1);
  statistics().reset_accumulated();
  EXPECT_EQ(statistics().num_alloc_retries, 0);
  EXPECT_EQ(statistics().num_ooms, 0);
  EXPECT_EQ(statistics().num_sync_all_streams, 0);
  EXPECT_EQ(statistics().num_device_alloc, 0);
  EXPECT_EQ(statistics().num_device_free, 0);
}

TEST_F(StatisticsTest, ResetsReachTheOversizeCounters) {
  PolicyOptions options;
  options.conf.rules.max_split_size = 100 * kMiB;
  use(kGiB, options);
  free(allocate(200 * kMiB));
  statistics().reset_peaks();
  statistics().reset_accumulated();
  EXPECT_EQ(statistics().oversize_allocations.peak, 0);
  EXPECT_EQ(statistics().oversize_allocations.freed, 0);
  EXPECT_EQ(statistics().oversize_segments.peak, 1);
  EXPECT_EQ(statistics().oversize_segments.allocated, 0);
}

TEST_F(StatisticsTest, APoolIsCountedFromItsFirstSegmentOn) {
  policy().create_pool(kPool);
  static_cast<void>(allocate(3 * kMiB));
  EXPECT_THAT(statistics().reserved_bytes_by_pool, ::testing::IsEmpty());
  open_pool();
  static_cast<void>(allocate(1));
  static_cast<void>(allocate(3 * kMiB));
  EXPECT_EQ(pool().all.current, 22 * kMiB);
  EXPECT_EQ(pool().by_class[0].current, 2 * kMiB);
  EXPECT_EQ(pool().by_class[1].current, 20 * kMiB);
}

TEST_F(StatisticsTest, APoolThatIsGoneKeepsItsPeak) {
  open_pool();
  free(allocate(3 * kMiB));
  forget_pool();
  EXPECT_EQ(pool().all.current, 0);
  EXPECT_EQ(pool().all.peak, 20 * kMiB);
  EXPECT_EQ(pool().all.freed, 20 * kMiB);
}

TEST_F(StatisticsTest, ResetsReachThePools) {
  open_pool();
  free(allocate(3 * kMiB));
  forget_pool();
  statistics().reset_peaks();
  statistics().reset_accumulated();
  EXPECT_EQ(pool().all.peak, 0);
  EXPECT_EQ(pool().all.allocated, 0);
}

TEST_F(StatisticsTest, APoolCountsTheMappedPagesOfExpandableSegments) {
  PolicyOptions options;
  options.conf.rules.expandable_segments = true;
  use(kGiB, options);
  open_pool();
  free(allocate(30 * kMiB));
  EXPECT_EQ(pool().all.current, 40 * kMiB);
  EXPECT_EQ(statistics().segment.all.current, 0);
  forget_pool();
  EXPECT_EQ(pool().all.current, 0);
}

}  // namespace
}  // namespace fragscope::policy::test
