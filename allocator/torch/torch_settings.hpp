// SPDX-License-Identifier: Apache-2.0
// The options of PYTORCH_CUDA_ALLOC_CONF as PyTorch itself holds them. It tells nobody when a
// program changes them, and its own allocator reads them at each use; so does this.
#pragma once

#include "allocator/engine/engine.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fragscope::shim {

/// Thread-safe.
class TorchSettings {
 public:
  TorchSettings() { static_cast<void>(take()); }

  /// Whether PyTorch holds something else than what was taken last, as far as a request of `size`
  /// bytes goes.
  [[nodiscard]] bool has_changed(std::size_t size) const;
  /// What PyTorch holds. Its text is this thread's until the next call.
  engine::Settings take();

 private:
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
};

}  // namespace fragscope::shim
