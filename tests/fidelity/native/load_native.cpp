// SPDX-License-Identifier: Apache-2.0
#include "tests/fidelity/native/native_allocator.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace fragscope::fidelity {

MakeNativeAllocator load_native_allocator(const char* library) {
  // PyTorch warns of each mapping that fails; here they fail by the thousand.
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", 0);
  void* opened = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (opened == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return nullptr;
  }
  return reinterpret_cast<MakeNativeAllocator>(dlsym(opened, kMakeNativeAllocator));
}

}  // namespace fragscope::fidelity
