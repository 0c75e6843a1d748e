// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/inspect/heap_check.hpp"

#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/device/simulated_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fragscope::policy {
namespace {

constexpr Address kStart = Address{1} << 45;

TEST(HeapCheck, FindsNothingInAWholeHeap) {
  SimulatedDevice device(kGiB);
  SimulatedStreams streams;
  CachingPolicy policy(device, streams);
  EXPECT_EQ(broken_invariant(policy), "");
  ASSERT_NE(policy.allocate(1, 0), nullptr);
  ASSERT_NE(policy.allocate(3 * kMiB, 1), nullptr);
  EXPECT_EQ(broken_invariant(policy), "");
}

// A pool's own allocator gives addresses that the device has given already.
TEST(HeapCheck, FindsSegmentsThatOverlap) {
  SimulatedDevice device(kGiB);
  SimulatedDevice source(kGiB, kStart + 2 * kMiB);
  SimulatedStreams streams;
  CachingPolicy policy(device, streams);
  ASSERT_NE(policy.allocate(20 * kMiB, 0), nullptr);
  policy.create_pool({0, 1}, {std::shared_ptr<void>(), &source});
  policy.begin_allocate_to_pool({0, 1}, [](StreamId) { return true; });
  ASSERT_NE(policy.allocate(20 * kMiB, 0), nullptr);
  EXPECT_THAT(broken_invariant(policy), ::testing::HasSubstr("overlaps the one below"));
}

TEST(HeapCheck, FindsACounterThatIsWrong) {
  SimulatedDevice device(kGiB);
  SimulatedStreams streams;
  CachingPolicy policy(device, streams);
  ASSERT_NE(policy.allocate(1, 0), nullptr);
  policy.statistics().active.add(SizeClass::kSmall, 1);
  EXPECT_EQ(broken_invariant(policy),
            "active: counted 2 small and 0 large, the blocks have 1 and 0");
}

TEST(HeapCheck, FindsABlockThatIsTooSmall) {
  SimulatedDevice device(kGiB);
  SimulatedStreams streams;
  CachingPolicy policy(device, streams);
  Block* block = policy.allocate(1, 0);
  ASSERT_NE(block, nullptr);
  block->requested_size = 513;
  EXPECT_THAT(broken_invariant(policy), ::testing::HasSubstr("is too small"));
}

}  // namespace
}  // namespace fragscope::policy
