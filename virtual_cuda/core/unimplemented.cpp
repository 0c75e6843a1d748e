// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/core/unimplemented.hpp"

#include <cstdio>
#include <mutex>
#include <set>
#include <string>

namespace fragscope::virtual_cuda {

void say_unimplemented(std::string_view what) {
  // Never destroyed, since programs call CUDA from their own static destructors.
  static auto& mutex = *new std::mutex;
  static auto& said = *new std::set<std::string, std::less<>>;
  const std::lock_guard lock(mutex);
  if (said.find(what) != said.end()) return;
  said.emplace(what);
  std::fprintf(stderr,
               "virtual_cuda: %.*s is not implemented; the call fails\n",
               static_cast<int>(what.size()),
               what.data());
}

}  // namespace fragscope::virtual_cuda

long fragscope_vc_unimplemented(const char* name, long code) {
  try {
    fragscope::virtual_cuda::say_unimplemented(name);
  } catch (...) {
    // Out of memory: the call fails all the same.
    return code;
  }
  return code;
}
