// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/forwarding_allocator.hpp"

#include <cstdint>

namespace fragscope::shim {
namespace {

/// Above the native allocator's 0, which one of 0 does not replace.
constexpr std::uint8_t kHighestPriority = 255;

}  // namespace

void become_current(CUDAAllocator& allocator) {
  // Some of PyTorch asks one, some the other (torch.accelerator), and its own way to change the
  // first forgets the second and refuses once CUDA is in use.
  caching::allocator.store(&allocator);
  c10::SetAllocator(c10::DeviceType::CUDA, &allocator, kHighestPriority);
}

}  // namespace fragscope::shim
