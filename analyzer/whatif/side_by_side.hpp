// SPDX-License-Identifier: Apache-2.0
// Independent pieces of work on as many threads as the machine has.
#pragma once

#include "analyzer/whatif/replay.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace fragscope::whatif {

/// Calls `work(i)` for each i below `count`, in no order. `tick` counts finished ones, and is
/// called by any thread, one at a time. `work` does not throw.
template <class Work>
void side_by_side(std::size_t count, const Tick& tick, Work work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::size_t done = 0;
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      work(i);
      const std::lock_guard lock(mutex);
      ++done;
      if (tick) tick(done, count);
    }
  };
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min(threads, count); ++i)
    others.emplace_back(take);
  take();
}

}  // namespace fragscope::whatif
