// SPDX-License-Identifier: Apache-2.0
// All devices of a process whose PyTorch is recorded as it is. Made at the first use and never
// destroyed, since PyTorch gives memory back after everything of ours is gone. Thread-safe.
#pragma once

#include "allocator/attach/native_device.hpp"
#include "allocator/recorder/process_recorder.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace fragscope::attach {

class Attachments final : public RingMaker {
 public:
  static constexpr int kMostDevices = 64;

  /// The process's own, if it was made.
  [[nodiscard]] static Attachments* existing();
  /// The process's own.
  [[nodiscard]] static Attachments& instance();

  /// What the rings' headers say; before the first ring.
  void configure(recorder::RecorderOptions options);
  /// Null for a number that no device has.
  [[nodiscard]] NativeDevice* device(int ordinal);
  /// The process ends well; what comes now is not recorded any more.
  void end_recording() const {
    visit([](NativeDevice& device) { device.end(); });
  }
  template <class Visit>
  void visit(Visit visit) const {
    for (const auto& device : devices_) {
      if (NativeDevice* made = device.load(std::memory_order_acquire)) visit(*made);
    }
  }

  [[nodiscard]] recorder::DeviceRecorder* make(std::int32_t ordinal,
                                               trace::TraceBeginning beginning,
                                               std::string_view conf) noexcept override;
  [[nodiscard]] std::string path_of(std::int32_t ordinal) const override;

 private:
  Attachments();

  std::array<std::atomic<NativeDevice*>, kMostDevices> devices_{};
  mutable std::mutex mutex_;
  recorder::RecorderOptions options_;
  std::unique_ptr<recorder::ProcessRecorder> recorders_;  // from the first ring on
};

}  // namespace fragscope::attach
