// SPDX-License-Identifier: Apache-2.0
// The options of PYTORCH_CUDA_ALLOC_CONF as PyTorch itself holds them. Its own allocator reads them
// at each use, since a program may change them at any time.
#pragma once

#include "allocator/engine/engine.hpp"
#include "allocator/torch/torch_names.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fragscope::shim {

/// Thread-safe.
class TorchSettings {
 public:
  TorchSettings();

  /// Whether PyTorch may hold something else than what was taken last, as far as a request of
  /// `size` bytes goes.
  [[nodiscard]] bool has_changed(std::size_t size) {
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
    // A string that PyTorch refuses in the middle is not told, though its first half counts.
    constexpr std::uint32_t kLooksItself = 64;
    const std::uint32_t requests = requests_.load(std::memory_order_relaxed) + 1;
    requests_.store(requests, std::memory_order_relaxed);
    if (requests % kLooksItself != 0) [[likely]] {
      return changes.load(std::memory_order_relaxed) !=
             seen_changes_.load(std::memory_order_relaxed);
    }
#endif
    return differs(size);
  }
  /// What PyTorch holds. Its text is this thread's until the next call.
  engine::Settings take();

 private:
  [[nodiscard]] bool differs(std::size_t size) const;

  struct Seen {
    std::atomic<std::uint64_t> max_split_size;
    std::atomic<std::uint64_t> max_non_split_rounding;
    std::atomic<std::uint64_t> large_segment_size;
    std::atomic<double> garbage_collection_threshold;
    std::atomic<bool> expandable_segments;
    std::atomic<bool> throw_on_cudamalloc_oom;
    std::array<std::atomic<std::uint64_t>, 16> roundup_divisions;
  };
  Seen seen_{};
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  /// Counts what PyTorch's settings are told to be, from the first of these objects on.
  static inline std::atomic<std::uint64_t> changes = 0;
  std::atomic<std::uint64_t> seen_changes_ = 0;
  std::atomic<std::uint32_t> requests_ = 0;
#endif
};

}  // namespace fragscope::shim
