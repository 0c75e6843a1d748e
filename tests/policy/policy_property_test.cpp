// SPDX-License-Identifier: Apache-2.0
// Random programs of every operation under every option: after each, all invariants hold, no two
// blocks that are handed out overlap, and at the end everything goes back.
#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/device/simulated_device.hpp"
#include "allocator/policy/inspect/heap_check.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace fragscope::policy::test {
namespace {

class Program {
 public:
  explicit Program(std::uint32_t seed)
      : draw_(seed)
      , device_((64 + pick(512)) * kMiB)
      , options_(some_options())
      , policy_(device_, streams_, options_) {}

  void run() {
    constexpr int kSteps = 400;
    for (int step = 0; step < kSteps; ++step) {
      take_step();
      ASSERT_EQ(broken_invariant(policy_), "") << "step " << step;
      ASSERT_EQ(policy_.held_bytes(), device_.used_bytes()) << "step " << step;
    }
    finish();
  }

 private:
  std::uint64_t pick(std::uint64_t count) { return draw_() % count; }

  PolicyOptions some_options() {
    PolicyOptions options;
    options.version = pick(2) == 0 ? TorchVersion::kTorch215 : TorchVersion::kTorch26;
    options.conf.rules.expandable_segments = pick(2) == 0;
    if (pick(3) == 0) options.conf.rules.max_split_size = (20 + pick(80)) * kMiB;
    if (pick(3) == 0) options.conf.garbage_collection_threshold = 0.6;
    if (pick(3) == 0) options.conf.rules.roundup_divisions.fill(4);
    return options;
  }

  std::uint64_t some_size() {
    switch (pick(4)) {
      case 0:
        return 1 + pick(4096);
      case 1:
        return 1 + pick(kMiB);
      case 2:
        return 1 + pick(10 * kMiB);
      default:
        return 1 + pick(80 * kMiB);
    }
  }

  void take_step() {
    switch (pick(16)) {
      case 0:
        static_cast<void>(policy_.empty_cache());  // 2.6 refuses it within a scope.
        return;
      case 1:
        return hold_or_release();
      case 2:
        return change_settings();
      case 3:
        return change_scope();
      case 4:
        return change_capture();
      case 5:
      case 6:
        if (!live_.empty()) policy_.record_stream(*live_[pick(live_.size())], pick(4));
        return;
      case 7:
      case 8:
      case 9:
      case 10:
        return free_one();
      default:
        return allocate_one();
    }
  }

  void allocate_one() {
    const StreamId stream = pick(3);
    streams_.use(stream);
    if (Block* block = policy_.allocate(some_size(), stream)) live_.push_back(block);
  }

  void free_one() {
    if (live_.empty()) return;
    const std::size_t place = pick(live_.size());
    ASSERT_TRUE(policy_.free(live_[place]->address));
    live_[place] = live_.back();
    live_.pop_back();
  }

  void hold_or_release() {
    const StreamId stream = pick(4);
    if (pick(2) == 0) {
      streams_.hold(stream);
    } else {
      streams_.release(stream);
    }
  }

  // The class of a block is judged by the setting of the moment, as PyTorch does; changing
  // max_split_size would make its counters of oversize blocks drift, here as there.
  void change_settings() {
    options_.conf.rules.expandable_segments = pick(2) == 0;
    policy_.set_options(options_);
    policy_.set_limit(pick(2) == 0 ? std::nullopt : std::optional((32 + pick(512)) * kMiB));
    device_.set_outside_bytes(pick(200) * kMiB);
  }

  void change_scope() {
    if (open_.empty() || pick(2) == 0) {
      const PoolId id{0, 1 + pick(3)};
      const StreamId stream = pick(3);
      policy_.begin_allocate_to_pool(id, [stream](StreamId asked) { return asked == stream; });
      open_.push_back(id);
    } else {
      policy_.end_allocate_to_pool(open_.back());
      policy_.release_pool(open_.back());
      open_.pop_back();
    }
  }

  void change_capture() {
    if (is_capturing_) {
      end_capture();
    } else {
      streams_.capture(pick(3));
      policy_.begin_capture();
    }
    is_capturing_ = !is_capturing_;
  }

  void end_capture() {
    streams_.end_capture();
    policy_.end_capture();
  }

  void finish() {
    if (is_capturing_) end_capture();
    while (!open_.empty()) {
      policy_.end_allocate_to_pool(open_.back());
      policy_.release_pool(open_.back());
      open_.pop_back();
    }
    for (Block* block : live_)
      EXPECT_TRUE(policy_.free(block->address));
    EXPECT_TRUE(policy_.empty_cache());
    EXPECT_EQ(broken_invariant(policy_), "");
    EXPECT_EQ(policy_.held_bytes(), 0U);
    EXPECT_EQ(device_.used_bytes(), 0U);
    // A mapping that failed leaves its address space reserved, as PyTorch does.
    for (const Block* block : policy_.blocks())
      EXPECT_FALSE(block->mapped);
  }

  std::mt19937 draw_;
  SimulatedDevice device_;
  SimulatedStreams streams_;
  PolicyOptions options_;
  CachingPolicy policy_;
  std::vector<Block*> live_;
  std::vector<PoolId> open_;
  bool is_capturing_ = false;
};

TEST(PolicyProperty, EveryInvariantHoldsThroughRandomPrograms) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Program(seed).run();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace fragscope::policy::test
