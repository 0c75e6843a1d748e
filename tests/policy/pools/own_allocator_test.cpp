// SPDX-License-Identifier: Apache-2.0
// Private pools whose segments come from an allocator of their own.
#include "allocator/policy/inspect/out_of_memory_message.hpp"
#include "tests/policy/policy_fixture.hpp"

#include <gmock/gmock.h>

namespace fragscope::policy::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr PoolId kPool{0, 1};
constexpr Address kSourceBase = kBase + SimulatedDevice::kAddressSpace;
constexpr std::string_view kHadNothing =
    " The custom allocator backing this MemPool returned nullptr. Check preceding allocator "
    "warnings or logs for the underlying cause. This can indicate an allocator-specific error or "
    "memory constraint, even when device-wide free memory is available.";

class OwnAllocatorTest : public PolicyTest {
 protected:
  void open_pool() {
    policy().create_pool(kPool, {std::shared_ptr<void>(), &source_});
    policy().begin_allocate_to_pool(kPool, [](StreamId) { return true; });
  }
  void close_pool() { policy().end_allocate_to_pool(kPool); }
  std::string message() {
    return out_of_memory_message(policy().failure(), policy().options(), 0, {});
  }
  /// 30 MiB.
  [[nodiscard]] SimulatedDevice& source() { return source_; }

 private:
  SimulatedDevice source_{30 * kMiB, kSourceBase};
};

TEST_F(OwnAllocatorTest, GivesThePoolsSegments) {
  open_pool();
  EXPECT_EQ(allocate(3 * kMiB).address, kSourceBase);
  EXPECT_EQ(source().used_bytes(), 20 * kMiB);
  EXPECT_EQ(device().used_bytes(), 0U);
  EXPECT_EQ(policy().held_bytes(), 20 * kMiB);
}

TEST_F(OwnAllocatorTest, IsNotAskedForOtherPools) {
  open_pool();
  close_pool();
  EXPECT_EQ(allocate(3 * kMiB).address, kBase);
  EXPECT_EQ(source().used_bytes(), 0U);
}

TEST_F(OwnAllocatorTest, GetsTheSegmentsBack) {
  open_pool();
  free(allocate(3 * kMiB));
  close_pool();
  policy().release_pool(kPool);  // its scope's use
  policy().release_pool(kPool);  // its maker's
  EXPECT_TRUE(policy().empty_cache());
  EXPECT_EQ(source().used_bytes(), 0U);
  EXPECT_EQ(policy().held_bytes(), 0U);
}

TEST_F(OwnAllocatorTest, CountsAgainstTheLimit) {
  policy().set_limit(30 * kMiB);
  open_pool();
  static_cast<void>(allocate(3 * kMiB));  // 20 MiB
  close_pool();
  EXPECT_EQ(policy().allocate(12 * kMiB, 0), nullptr);
}

TEST_F(OwnAllocatorTest, GivesNoExpandableSegments) {
  PolicyOptions options;
  options.conf.rules.expandable_segments = true;
  use(kGiB, options);
  open_pool();
  EXPECT_EQ(allocate(3 * kMiB).expandable, nullptr);
  close_pool();
  EXPECT_NE(allocate(3 * kMiB).expandable, nullptr);
  EXPECT_EQ(policy().statistics().segment.all.current, 1);
}

// Such a block is split as a plain one: 512 KiB stay with it.
TEST_F(OwnAllocatorTest, SplitsAsAPlainSegmentDoes) {
  PolicyOptions options;
  options.conf.rules.expandable_segments = true;
  use(kGiB, options);
  open_pool();
  EXPECT_EQ(allocate(20 * kMiB - 512 * kKiB).size, 20 * kMiB);
}

TEST_F(OwnAllocatorTest, IsNamedByTheFailureWhenItHasNothing) {
  open_pool();
  EXPECT_EQ(policy().allocate(40 * kMiB, 0), nullptr);
  EXPECT_TRUE(policy().failure().is_source_empty);
  EXPECT_THAT(message(), HasSubstr(kHadNothing));
}

TEST_F(OwnAllocatorTest, IsNotNamedWhereTheLimitForbadeToAskIt) {
  open_pool();
  EXPECT_EQ(policy().allocate(40 * kMiB, 0), nullptr);
  policy().set_limit(10 * kMiB);
  EXPECT_EQ(policy().allocate(3 * kMiB, 0), nullptr);
  EXPECT_FALSE(policy().failure().is_source_empty);
  EXPECT_THAT(message(), Not(HasSubstr(kHadNothing)));
}

TEST_F(OwnAllocatorTest, IsNotNamedWhereTheDeviceHadNothing) {
  open_pool();
  EXPECT_EQ(policy().allocate(40 * kMiB, 0), nullptr);
  close_pool();
  EXPECT_EQ(policy().allocate(2 * kGiB, 0), nullptr);
  EXPECT_FALSE(policy().failure().is_source_empty);
}

}  // namespace
}  // namespace fragscope::policy::test
