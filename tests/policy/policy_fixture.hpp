// SPDX-License-Identifier: Apache-2.0
// A policy over a simulated device, its books checked after every test.
#pragma once

#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/device/simulated_device.hpp"
#include "allocator/policy/inspect/heap_check.hpp"
#include "trace/check.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace fragscope::policy::test {

inline constexpr Address kBase = Address{1} << 45;

class PolicyTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(broken_invariant(policy()), ""); }

  /// A fresh policy; call before the first use of `policy()` if the default does not do.
  void use(std::uint64_t device_bytes, const PolicyOptions& options = {}) {
    policy_.reset();
    device_.emplace(device_bytes);
    policy_.emplace(*device_, streams_, options);
  }
  [[nodiscard]] CachingPolicy& policy() {
    if (!policy_) use(kGiB);
    return *policy_;
  }
  [[nodiscard]] SimulatedDevice& device() {
    static_cast<void>(policy());
    return *device_;
  }
  [[nodiscard]] SimulatedStreams& streams() { return streams_; }

  /// A block that must be there.
  Block& allocate(std::uint64_t bytes, StreamId stream = 0) {
    Block* block = policy().allocate(bytes, stream);
    FRAGSCOPE_CHECK(block != nullptr);
    return *block;
  }
  void free(const Block& block) { ASSERT_TRUE(policy().free(block.address)); }

 private:
  std::optional<SimulatedDevice> device_;
  SimulatedStreams streams_;
  std::optional<CachingPolicy> policy_;
};

}  // namespace fragscope::policy::test
