// SPDX-License-Identifier: Apache-2.0
// Adding to what other threads add to, on either side. Relaxed: only commutative sums and maxima
// are made this way, and nobody reads them before all threads are done.
#pragma once

#include "kernels/primitives/host_device.hpp"

#include <atomic>
#include <cstdint>

namespace fragscope::kernels {

FRAGSCOPE_HOST_DEVICE inline void atomic_add(std::uint64_t& into, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  atomicAdd(reinterpret_cast<unsigned long long*>(&into), value);
#else
  std::atomic_ref(into).fetch_add(value, std::memory_order_relaxed);
#endif
}

FRAGSCOPE_HOST_DEVICE inline void atomic_add(std::uint32_t& into, std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  atomicAdd(&into, value);
#else
  std::atomic_ref(into).fetch_add(value, std::memory_order_relaxed);
#endif
}

FRAGSCOPE_HOST_DEVICE inline void atomic_max(std::uint64_t& into, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  atomicMax(reinterpret_cast<unsigned long long*>(&into), value);
#else
  const std::atomic_ref shared(into);
  std::uint64_t seen = shared.load(std::memory_order_relaxed);
  while (seen < value && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
#endif
}

}  // namespace fragscope::kernels
