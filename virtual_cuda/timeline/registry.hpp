// SPDX-License-Identifier: Apache-2.0
// Objects that programs hold handles of. Handles are numbers in order of creation, not addresses of
// the heap: PyTorch orders its blocks by stream handle, and its layout must repeat from run to run.
// A handle that is stale or made up is found out instead of followed.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

namespace fragscope::virtual_cuda {

template <class T>
class Registry {
 public:
  /// Handles are multiples of 256 above `base`, so registries with other bases have other handles.
  explicit Registry(std::uint64_t base)
      : last_handle_(base) {}

  std::uint64_t add(std::unique_ptr<T> object) {
    last_handle_ += 256;
    objects_.emplace(last_handle_, std::move(object));
    return last_handle_;
  }

  /// The object, or null.
  [[nodiscard]] T* find(std::uint64_t handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second.get();
  }

  /// Takes the object out; null if there is none.
  [[nodiscard]] std::unique_ptr<T> remove(std::uint64_t handle) {
    auto node = objects_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  [[nodiscard]] const auto& all() const { return objects_; }

 private:
  std::uint64_t last_handle_;
  std::unordered_map<std::uint64_t, std::unique_ptr<T>> objects_;
};

}  // namespace fragscope::virtual_cuda
