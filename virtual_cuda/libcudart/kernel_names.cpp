// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/libcudart/kernel_names.hpp"

#include <mutex>
#include <unordered_map>

namespace fragscope::virtual_cuda {
namespace {

struct Names {
  std::mutex mutex;
  std::unordered_map<const void*, const char*> by_function;
};

Names& names() {
  static Names& all =
      *new Names;  // Libraries register and launch before and after our statics live.
  return all;
}

}  // namespace

void register_kernel(const void* function, const char* name) {
  Names& all = names();
  const std::lock_guard lock(all.mutex);
  all.by_function[function] = name;
}

const char* kernel_name(const void* function) {
  Names& all = names();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_function.find(function);
  return found == all.by_function.end() ? "" : found->second;
}

}  // namespace fragscope::virtual_cuda
