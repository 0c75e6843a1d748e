// SPDX-License-Identifier: Apache-2.0
// use_on_oom and no_split. A pool of 30 MiB, free, lends on a device of 60.
#include "tests/policy/policy_fixture.hpp"

namespace fragscope::policy::test {
namespace {

constexpr PoolId kPool{0, 1};

class LendingTest : public PolicyTest {
 protected:
  void SetUp() override { make_lender(60 * kMiB, {}); }
  void make_lender(std::uint64_t device_bytes, const PolicyOptions& options) {
    use(device_bytes, options);
    policy().begin_allocate_to_pool(kPool, [](StreamId) { return true; });
    free(allocate(30 * kMiB));
    policy().end_allocate_to_pool(kPool);
    policy().set_use_on_oom(kPool, true);
  }
  void set_expandable(bool expandable) {
    PolicyOptions options = policy().options();
    options.conf.rules.expandable_segments = expandable;
    policy().set_options(options);
  }
};
class NoSplitTest : public PolicyTest {};

TEST_F(LendingTest, ComesAfterTheDevice) {
  EXPECT_EQ(allocate(30 * kMiB).address, kBase + 30 * kMiB);
}

TEST_F(LendingTest, ComesBeforeTheCacheIsGivenBack) {
  free(allocate(3 * kMiB));  // 20 MiB are cached, 10 are left.
  EXPECT_EQ(allocate(25 * kMiB).address, kBase);
  EXPECT_EQ(policy().statistics().num_alloc_retries, 0);
  EXPECT_EQ(policy().held_bytes(), 50 * kMiB);
}

TEST_F(LendingTest, CountsInTheRequestsClassAndLeavesTheRestThere) {
  static_cast<void>(allocate(30 * kMiB));
  const Block& borrowed = allocate(25 * kMiB);
  EXPECT_EQ(borrowed.size, 25 * kMiB);
  EXPECT_EQ(borrowed.pool->owner()->id, kPool);
  EXPECT_EQ(policy().statistics().inactive_split_bytes.all.current, 5 * kMiB);
}

TEST_F(LendingTest, TheBlockReturnsToItsPool) {
  static_cast<void>(allocate(30 * kMiB));
  free(allocate(25 * kMiB));
  policy().set_use_on_oom(kPool, false);
  EXPECT_EQ(policy().allocate(25 * kMiB, 0), nullptr);
}

TEST_F(LendingTest, IsOnlyForTheBlocksOwnStream) {
  static_cast<void>(allocate(30 * kMiB));
  EXPECT_EQ(policy().allocate(25 * kMiB, 1), nullptr);
}

TEST_F(LendingTest, IsNotForOtherPools) {
  static_cast<void>(allocate(30 * kMiB));
  policy().begin_allocate_to_pool({0, 2}, [](StreamId) { return true; });
  EXPECT_EQ(policy().allocate(25 * kMiB, 0), nullptr);
}

// An expandable block would be cut; a plain one keeps what is at most 1 MiB.
TEST_F(LendingTest, SplitsAsAPlainBlockUnderExpandableSegments) {
  set_expandable(true);
  static_cast<void>(allocate(20 * kMiB));
  const Block& borrowed = allocate(30 * kMiB - 512 * kKiB);
  EXPECT_EQ(borrowed.address, kBase);
  EXPECT_EQ(borrowed.size, 30 * kMiB);
}

TEST_F(LendingTest, LendsNoExpandableBlock) {
  PolicyOptions options;
  options.conf.rules.expandable_segments = true;
  make_lender(60 * kMiB, options);  // It holds two pages, 40 MiB.
  EXPECT_EQ(policy().allocate(25 * kMiB, 0), nullptr);
}

TEST_F(NoSplitTest, GivesTheWholeSegmentWhateverIsLeft) {
  policy().begin_allocate_to_pool(kPool, [](StreamId) { return true; });
  policy().set_no_split(kPool, true);
  EXPECT_EQ(allocate(2 * kMiB).size, 20 * kMiB);
  EXPECT_EQ(allocate(2 * kMiB).address, kBase + 20 * kMiB);
  EXPECT_EQ(policy().statistics().requested_bytes.all.current, 4 * kMiB);
  EXPECT_EQ(policy().statistics().inactive_split.all.current, 0);
}

TEST_F(NoSplitTest, CanBeTakenBack) {
  policy().begin_allocate_to_pool(kPool, [](StreamId) { return true; });
  policy().set_no_split(kPool, true);
  free(allocate(2 * kMiB));
  policy().set_no_split(kPool, false);
  EXPECT_EQ(allocate(2 * kMiB).size, 2 * kMiB);
}

TEST_F(NoSplitTest, IsForItsPoolOnly) {
  policy().create_pool(kPool);
  policy().set_no_split(kPool, true);
  EXPECT_EQ(allocate(2 * kMiB).size, 2 * kMiB);
}

}  // namespace
}  // namespace fragscope::policy::test
