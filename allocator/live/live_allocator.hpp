// SPDX-License-Identifier: Apache-2.0
// All devices of a process. Made at the first use and never destroyed: memory is given back after
// everything of ours is gone. Thread-safe.
#pragma once

#include "allocator/live/live_device.hpp"
#include "trace/result.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <string>

namespace fragscope::live {

/// What rings say of this process, with the settings that the environment has.
[[nodiscard]] recorder::RecorderOptions recorder_options_of_environment();

class LiveAllocator {
 public:
  static constexpr int kMostDevices = 64;

  /// The process's own. The options come from PYTORCH_CUDA_ALLOC_CONF (or the other names PyTorch
  /// reads), as PyTorch 2.15 takes them; what it refuses keeps its default.
  [[nodiscard]] static LiveAllocator& instance();

  LiveAllocator(const LiveAllocator&) = delete;
  LiveAllocator& operator=(const LiveAllocator&) = delete;

  /// The device, opened at the first call. Fails: no driver, no such device, the driver says no.
  [[nodiscard]] Result<LiveDevice*> device(int ordinal);
  /// One that is open already, or null.
  [[nodiscard]] LiveDevice* find_open(int ordinal) const;

  template <class Visit>
  void visit_open(Visit visit) const {
    for (const auto& device : devices_) {
      if (LiveDevice* open = device.load(std::memory_order_acquire)) visit(*open);
    }
  }

  // Around a fork: nobody may be in the middle of anything.
  void lock_all();
  void unlock_all();

 private:
  LiveAllocator();

  policy::PolicyOptions options_;
  recorder::ProcessRecorder recorders_;
  std::array<std::atomic<LiveDevice*>, kMostDevices> devices_{};
  std::mutex opening_;
};

}  // namespace fragscope::live
