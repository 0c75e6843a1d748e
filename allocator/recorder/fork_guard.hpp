// SPDX-License-Identifier: Apache-2.0
// Tells a forked child from its parent by one load, so that children never write into the parent's
// rings. The kernel itself clears the page for a child, however it was forked.
#pragma once

#include <atomic>
#include <cstdint>

namespace fragscope::recorder {

class ForkGuard {
 public:
  ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard();

  /// False if the system cannot do it (Linux before 4.14): then nothing may be recorded.
  [[nodiscard]] bool is_sound() const { return page_ != nullptr; }
  /// Only if sound.
  [[nodiscard]] bool is_child() const {
    return std::atomic_ref(*page_).load(std::memory_order_relaxed) == 0;
  }

 private:
  std::uint32_t* page_ = nullptr;
};

}  // namespace fragscope::recorder
