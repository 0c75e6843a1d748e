// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/threads.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace fragscope::kernels {

unsigned usable_threads() {
  return std::max(1U, std::thread::hardware_concurrency());
}

void for_each_index(std::uint64_t count,
                    unsigned threads,
                    const std::function<void(std::uint64_t)>& work) {
  const std::uint64_t wanted =
      std::min<std::uint64_t>(count, threads == 0 ? usable_threads() : threads);
  std::atomic<std::uint64_t> next = 0;
  // Relaxed: the number is all that is handed out; what was written is seen after the join.
  const auto run = [&] {
    for (std::uint64_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      work(i);
    }
  };
  std::vector<std::jthread> others;
  others.reserve(wanted);
  for (std::uint64_t i = 1; i < wanted; ++i)
    others.emplace_back(run);
  run();
}

}  // namespace fragscope::kernels
