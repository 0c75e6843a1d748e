// SPDX-License-Identifier: Apache-2.0
#include "tests/fidelity/native/native_allocator.hpp"

#include <dlfcn.h>

#include <cstdio>

namespace fragscope::fidelity {

NativeAllocator* load_native_allocator(const char* library) {
  void* opened = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (opened == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return nullptr;
  }
  const auto make = reinterpret_cast<MakeNativeAllocator>(dlsym(opened, kMakeNativeAllocator));
  return make == nullptr ? nullptr : make();
}

}  // namespace fragscope::fidelity
