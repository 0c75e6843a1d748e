// SPDX-License-Identifier: Apache-2.0
// Our policy beside PyTorch's own allocator, in one process: a pair of allocation and free of a
// cached block, and a seeded mix. FRAGSCOPE_NATIVE_ALLOCATOR names the library around PyTorch's
// allocator (tests/fidelity/native), which needs virtual CUDA; without it only ours runs. Ours does
// what the live allocator does around the policy: takes a lock, and finds the block of a pointer.
#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/device/simulated_device.hpp"
#include "tests/fidelity/native/native_allocator.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace fragscope;
using fidelity::TimedStep;
using policy::kGiB;
using policy::kKiB;
using policy::kMiB;

constexpr std::size_t kSteps = 1 << 16;

std::vector<TimedStep> pairs(std::uint64_t bytes) {
  return std::vector<TimedStep>(kSteps, TimedStep{0, bytes});
}

/// Sizes from 512 bytes to 8 MiB, each power of two as often as another; 2000 slots, half of them
/// full at any time.
std::vector<TimedStep> mix() {
  std::mt19937_64 draw(1);
  std::vector<TimedStep> steps(kSteps);
  for (TimedStep& step : steps) {
    const std::uint64_t power = std::uint64_t{512} << draw() % 14;
    step = {static_cast<std::uint32_t>(draw() % 2000), power + draw() % power};
  }
  return steps;
}

class OurAllocator {
 public:
  std::uint64_t time(const std::vector<TimedStep>& steps) {
    const auto start = std::chrono::steady_clock::now();
    for (const TimedStep& step : steps) {
      policy::Address& address = slots_[step.slot];
      const std::lock_guard lock(mutex_);
      if (address != 0) {
        static_cast<void>(policy_.free(address));
        address = 0;
      } else {
        const policy::Block* block = policy_.allocate(step.bytes, 0);
        address = block == nullptr ? 0 : block->address;
      }
    }
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  }

 private:
  policy::SimulatedStreams streams_;
  policy::SimulatedDevice device_{80 * kGiB};
  policy::CachingPolicy policy_{device_, streams_};
  std::recursive_mutex mutex_;
  std::vector<policy::Address> slots_ = std::vector<policy::Address>(fidelity::kTimedSlots);
};

fidelity::NativeAllocator* native_allocator() {
  static fidelity::NativeAllocator* const kAllocator = [] {
    const char* library = std::getenv("FRAGSCOPE_NATIVE_ALLOCATOR");
    const auto make = library == nullptr ? nullptr : fidelity::load_native_allocator(library);
    return make == nullptr ? nullptr : make();
  }();
  return kAllocator;
}

template <class Allocator>
void run(benchmark::State& state, Allocator& allocator, const std::vector<TimedStep>& steps) {
  static_cast<void>(allocator.time(steps));  // Fills the cache.
  for (auto _ : state)
    state.SetIterationTime(static_cast<double>(allocator.time(steps)) * 1e-9);
  // Two passes free what one leaves behind.
  static_cast<void>(allocator.time(steps));
  const auto taken =
      static_cast<std::int64_t>(steps.size()) * static_cast<std::int64_t>(state.iterations());
  state.SetItemsProcessed(taken);
  state.counters["pair"] = benchmark::Counter(
      static_cast<double>(taken) / 2, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void ours(benchmark::State& state, const std::vector<TimedStep>& steps) {
  OurAllocator allocator;
  run(state, allocator, steps);
}

void native(benchmark::State& state, const std::vector<TimedStep>& steps) {
  fidelity::NativeAllocator* allocator = native_allocator();
  if (allocator == nullptr) {
    state.SkipWithError("no library in FRAGSCOPE_NATIVE_ALLOCATOR");
    return;
  }
  run(state, *allocator, steps);
}

[[maybe_unused]] const bool kRegistered = [] {
  const auto add = [](const std::string& name, const std::vector<TimedStep>& steps) {
    benchmark::RegisterBenchmark(("ours/" + name).c_str(), ours, steps)->UseManualTime();
    if (std::getenv("FRAGSCOPE_NATIVE_ALLOCATOR") == nullptr) return;
    benchmark::RegisterBenchmark(("native/" + name).c_str(), native, steps)->UseManualTime();
  };
  add("pair_4KiB", pairs(4 * kKiB));
  add("pair_8MiB", pairs(8 * kMiB));
  add("mix", mix());
  return true;
}();

}  // namespace
