// SPDX-License-Identifier: Apache-2.0
// A program of its own, since it counts every allocation on the heap.
#include "tests/policy/policy_fixture.hpp"
#include "tests/support/heap_counter.hpp"

#include <random>
#include <vector>

namespace fragscope::policy::test {
namespace {

using fragscope::test::heap_allocations;

using HitPath = PolicyTest;

/// Allocates and frees at random among 500 places; requests never reach the device once the cache
/// holds enough.
class Churn {
 public:
  explicit Churn(CachingPolicy& policy)
      : policy_(policy) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      Address& place = places_[draw_() % places_.size()];
      if (place != 0) {
        FRAGSCOPE_CHECK(policy_.free(place));
        place = 0;
      } else {
        place = policy_.allocate(1 + draw_() % (4 * kMiB), 0)->address;
      }
    }
  }

 private:
  CachingPolicy& policy_;
  std::vector<Address> places_ = std::vector<Address>(500);
  std::mt19937_64 draw_{1};
};

TEST_F(HitPath, AllocatesNothingOnTheHeap) {
  use(64 * kGiB);
  Churn churn(policy());
  churn.run(2'000'000);  // Until the heap has reached its size.
  const auto segments = policy().statistics().num_device_alloc;
  const std::size_t before = heap_allocations();
  churn.run(200'000);
  EXPECT_EQ(heap_allocations(), before);
  EXPECT_EQ(policy().statistics().num_device_alloc, segments);
}

TEST_F(HitPath, AnAllocationOnTheHeapWouldBeSeen) {
  const std::size_t before = heap_allocations();
  const std::vector<int> some(10);
  EXPECT_EQ(heap_allocations(), before + 1);
}

}  // namespace
}  // namespace fragscope::policy::test
