// SPDX-License-Identifier: Apache-2.0
// All devices of a process. Made at the first use and never destroyed: memory is given back after
// everything of ours is gone. Thread-safe.
#pragma once

#include "allocator/engine/engine.hpp"
#include "allocator/live/live_device.hpp"
#include "allocator/live/live_options.hpp"
#include "trace/result.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <string>

namespace fragscope::live {

class LiveAllocator final : public engine::Engine {
 public:
  static constexpr int kMostDevices = 64;

  /// The process's own, with `LiveOptions::of_process()` as they are at the first call.
  [[nodiscard]] static LiveAllocator& instance();
  /// The same, if it was made.
  [[nodiscard]] static LiveAllocator* existing();

  /// The device, opened at the first call. Fails: no driver, no such device, the driver says no.
  [[nodiscard]] Result<LiveDevice*> device(int ordinal);
  [[nodiscard]] LiveDevice* open(int ordinal) noexcept override;
  [[nodiscard]] LiveDevice* find_open(int ordinal) const noexcept override;
  [[nodiscard]] std::string_view reason() const noexcept override;

  template <class Visit>
  void visit_open(Visit visit) const {
    for (const auto& device : devices_) {
      if (LiveDevice* open = device.load(std::memory_order_acquire)) visit(*open);
    }
  }

  // Around a fork: nobody may be in the middle of anything.
  void lock_all();
  void unlock_all();
  void renew_all();

  /// The process ends well; what comes now is not recorded any more.
  void end_recording() const;

 private:
  explicit LiveAllocator(const LiveOptions& options);

  LiveOptions options_;
  recorder::ProcessRecorder recorders_;
  std::array<std::atomic<LiveDevice*>, kMostDevices> devices_{};
  std::mutex opening_;
  bool guards_forks_ = false;
};

}  // namespace fragscope::live
