// SPDX-License-Identifier: Apache-2.0
// Which allocator PyTorch asks, switched between the ones that were current before, and pairs of a
// request and its free timed in C++. Built against the installed PyTorch by torch_bench.py.
#include <array>
#include <chrono>
#include <cstddef>

#include <c10/cuda/CUDACachingAllocator.h>

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
std::array<caching::CUDAAllocator*, 4> kept{};

}  // namespace

extern "C" {

/// Remembers the current allocator under this number.
void keep(int number) {
  kept.at(static_cast<std::size_t>(number)) = caching::get();
}

void use(int number) {
  caching::allocator.store(kept.at(static_cast<std::size_t>(number)));
}

/// Nanoseconds for one pair, on average: a block that is cached, with one beside it in use.
double pair_ns(int number, std::size_t size, int pairs) {
  caching::CUDAAllocator& allocator = *kept.at(static_cast<std::size_t>(number));
  const auto neighbour = allocator.allocate(size);
  { const auto cached = allocator.allocate(size); }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < pairs; ++i) {
    const auto block = allocator.allocate(size);
  }
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / pairs;
}

}  // extern "C"
