// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/attached_allocator.hpp"

#include "allocator/torch/forwarding_allocator.hpp"

namespace fragscope::shim {

const char* attach(const char* /*library*/) {
  // Never destroyed: PyTorch gives memory back after static destructors have run.
  become_current(*new ForwardingAllocator(*caching::get()));
  return nullptr;
}

}  // namespace fragscope::shim
