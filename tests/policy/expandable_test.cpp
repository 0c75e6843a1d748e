// SPDX-License-Identifier: Apache-2.0
// Expandable segments, by hand.
#include "tests/policy/policy_fixture.hpp"

namespace fragscope::policy::test {
namespace {

class ExpandableTest : public PolicyTest {
 protected:
  void SetUp() override { use_device(kGiB); }
  void use_device(std::uint64_t bytes) {
    PolicyOptions options;
    options.conf.rules.expandable_segments = true;
    use(bytes, options);
  }
};

TEST_F(ExpandableTest, MapsWholePagesAsTheyAreNeeded) {
  const Block& first = allocate(3 * kMiB);
  EXPECT_EQ(first.address, kBase);
  EXPECT_EQ(policy().held_bytes(), 20 * kMiB);
  const Block& second = allocate(30 * kMiB);
  EXPECT_EQ(second.address, kBase + 3 * kMiB);
  EXPECT_EQ(policy().held_bytes(), 40 * kMiB);
  EXPECT_EQ(policy().statistics().segment.all.current, 0);
  EXPECT_EQ(policy().statistics().inactive_split.all.current, 0);
}

TEST_F(ExpandableTest, GrowsAFreeBlockInPlace) {
  Block& first = allocate(20 * kMiB);
  free(first);
  EXPECT_EQ(allocate(50 * kMiB).address, kBase);
  EXPECT_EQ(policy().held_bytes(), 60 * kMiB);
}

TEST_F(ExpandableTest, SmallOnesHaveASegmentOfTheirOwn) {
  static_cast<void>(allocate(20 * kMiB));
  const Block& small = allocate(512);
  EXPECT_EQ(small.address, kBase + round_up(kGiB + kGiB / 8, 20 * kMiB));
  EXPECT_EQ(policy().held_bytes(), 22 * kMiB);
}

TEST_F(ExpandableTest, GivesBackThePagesInsideAFreeBlock) {
  Block& a = allocate(30 * kMiB);
  Block& b = allocate(50 * kMiB);
  Block& c = allocate(10 * kMiB);
  EXPECT_EQ(policy().held_bytes(), 100 * kMiB);
  free(b);
  EXPECT_TRUE(policy().empty_cache());  // of 30 to 80 MiB: the pages from 40 to 80
  EXPECT_EQ(policy().held_bytes(), 60 * kMiB);
  EXPECT_EQ(policy().statistics().num_device_free, 1);
  EXPECT_EQ(allocate(45 * kMiB).address, kBase + 30 * kMiB);
  free(a);
  free(c);
}

TEST_F(ExpandableTest, GivesTheAddressSpaceBackWithItsLastPage) {
  free(allocate(30 * kMiB));
  EXPECT_TRUE(policy().empty_cache());
  EXPECT_EQ(policy().held_bytes(), 0U);
  EXPECT_TRUE(policy().blocks().empty());
}

TEST_F(ExpandableTest, AFailedMappingLeavesTheHeapAsItWas) {
  use_device(100 * kMiB);
  static_cast<void>(allocate(70 * kMiB));
  EXPECT_EQ(policy().allocate(60 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().failure().rounded_size, 60 * kMiB);
  EXPECT_EQ(policy().held_bytes(), 80 * kMiB);
  EXPECT_NE(policy().allocate(30 * kMiB, 0), nullptr);
}

// Where fewer pages would do, the limit still counts the plain segment's size.
TEST_F(ExpandableTest, TheLimitCountsTheDeviceAllocation) {
  static_cast<void>(allocate(15 * kMiB));
  policy().set_limit(45 * kMiB);
  EXPECT_EQ(policy().allocate(30 * kMiB, 0), nullptr);
  policy().set_limit(50 * kMiB);
  EXPECT_NE(policy().allocate(30 * kMiB, 0), nullptr);
}

}  // namespace
}  // namespace fragscope::policy::test
