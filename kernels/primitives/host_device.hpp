// SPDX-License-Identifier: Apache-2.0
// How a function is marked that runs on the CPU and on the GPU alike, and what the two spell
// differently. Used by everything that both forms of an algorithm share.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define FRAGSCOPE_HOST_DEVICE __host__ __device__
#else
#define FRAGSCOPE_HOST_DEVICE
#endif

namespace fragscope::kernels {

/// The place of the highest bit that is set. `bits` is not 0.
[[nodiscard]] FRAGSCOPE_HOST_DEVICE inline std::uint32_t top_bit(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(63 - __clzll(static_cast<long long>(bits)));
#else
  return static_cast<std::uint32_t>(std::bit_width(bits) - 1);
#endif
}

}  // namespace fragscope::kernels
