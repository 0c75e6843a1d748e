// SPDX-License-Identifier: Apache-2.0
// Another allocator as the source of a private pool's segments: what MemPool(allocator) asks for.
#pragma once

#include "allocator/policy/device/device_memory.hpp"
#include "allocator/torch/torch_names.hpp"

#include <bit>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace fragscope::shim {

/// Called under the device's lock; no other thread-safety.
class PoolSource final : public policy::DeviceMemory {
 public:
  explicit PoolSource(std::shared_ptr<CUDAAllocator> allocator)
      : allocator_(std::move(allocator)) {}

  [[nodiscard]] std::optional<policy::Address> allocate(std::uint64_t size) override {
    try {
      void* pointer = allocator_->raw_alloc(size);
      if (pointer == nullptr) return std::nullopt;
      return std::bit_cast<policy::Address>(pointer);
    } catch (...) {
      failure() = std::current_exception();  // What it throws is not for the policy to see.
      return std::nullopt;
    }
  }
  void free(policy::Address address, std::uint64_t /*size*/) override {
    allocator_->raw_delete(std::bit_cast<void*>(address));
  }

  // Such a pool has no expandable segments.
  [[nodiscard]] std::optional<policy::Address> reserve(std::uint64_t /*size*/) override {
    return std::nullopt;
  }
  [[nodiscard]] bool map(policy::Address /*address*/,
                         std::uint64_t /*size*/,
                         std::uint64_t /*page_size*/) override {
    return false;
  }
  void unmap(policy::Address /*address*/, std::uint64_t /*size*/) override {}
  void release(policy::Address /*address*/, std::uint64_t /*size*/) override {}
  [[nodiscard]] policy::Capacity capacity() const override { return {}; }

  /// Throws on what an allocator threw in this thread meanwhile, once.
  static void rethrow_failure() {
    if (failure() != nullptr) std::rethrow_exception(std::exchange(failure(), nullptr));
  }

 private:
  static std::exception_ptr& failure() {
    static thread_local std::exception_ptr failure;
    return failure;
  }

  std::shared_ptr<CUDAAllocator> allocator_;
};

}  // namespace fragscope::shim
