// SPDX-License-Identifier: Apache-2.0
// A vector for the few arrays that hold something for every event. Large allocations are aligned to
// and asked to use huge pages: filling a hundred megabytes through 4 KiB pages costs more than
// reading the events does. Where the system has no huge pages it is an ordinary vector.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace fragscope::model {

template <class T>
struct LargePageAllocator {
  using value_type = T;

  LargePageAllocator() = default;
  template <class U>
  LargePageAllocator(const LargePageAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] T* allocate(std::size_t count) {
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    if (count > std::size_t(-1) / 2 / sizeof(T)) throw std::bad_alloc();
    const std::size_t bytes = count * sizeof(T);
    const bool is_large = bytes >= 2 * kHugePage;
    const std::size_t rounded = is_large ? (bytes + kHugePage - 1) / kHugePage * kHugePage : bytes;
    void* memory = is_large ? std::aligned_alloc(kHugePage, rounded) : std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    if (is_large) ::madvise(memory, rounded, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) { std::free(memory); }

  friend bool operator==(const LargePageAllocator&, const LargePageAllocator&) { return true; }
};

template <class T>
using LargeVector = std::vector<T, LargePageAllocator<T>>;

}  // namespace fragscope::model
