// SPDX-License-Identifier: Apache-2.0
// Times the calls that a device's memory serves, for the records that tell of them. Stands between
// the policy and the driver: two looks at the clock for each such call while the device is
// recorded, and none where the cache serves. Not thread-safe; called under the device's lock.
#pragma once

#include "allocator/policy/device/device_memory.hpp"
#include "allocator/recorder/device_recorder.hpp"
#include "trace/ring/clock.hpp"

#include <cstdint>
#include <ctime>
#include <optional>

namespace fragscope::recorder {

class TimedMemory final : public policy::DeviceMemory {
 public:
  /// Both outlive this; the policy tells `recorder` of what it gets from here. Null: the device is
  /// not recorded, and nothing is timed.
  TimedMemory(policy::DeviceMemory& memory, DeviceRecorder* recorder)
      : memory_(memory)
      , recorder_(recorder) {}

  [[nodiscard]] std::optional<policy::Address> allocate(std::uint64_t size) override {
    const std::uint64_t begin = now();
    const std::optional<policy::Address> address = memory_.allocate(size);
    tell(begin, address.has_value());
    return address;
  }
  void free(policy::Address address, std::uint64_t size) override {
    const std::uint64_t begin = now();
    memory_.free(address, size);
    tell(begin, true);
  }
  [[nodiscard]] bool map(policy::Address address,
                         std::uint64_t size,
                         std::uint64_t page_size) override {
    const std::uint64_t begin = now();
    const bool is_mapped = memory_.map(address, size, page_size);
    tell(begin, is_mapped);
    return is_mapped;
  }
  void unmap(policy::Address address, std::uint64_t size) override {
    const std::uint64_t begin = now();
    memory_.unmap(address, size);
    tell(begin, true);
  }

  // Of these there are no records.
  [[nodiscard]] std::optional<policy::Address> reserve(std::uint64_t size) override {
    return memory_.reserve(size);
  }
  void release(policy::Address address, std::uint64_t size) override {
    memory_.release(address, size);
  }
  [[nodiscard]] policy::Capacity capacity() const override { return memory_.capacity(); }

 private:
  /// 0 where nothing is recorded.
  [[nodiscard]] std::uint64_t now() const {
    const bool is_recording = recorder_ != nullptr && recorder_->is_recording();
    return is_recording ? trace::clock_ns(CLOCK_MONOTONIC) : 0;
  }
  void tell(std::uint64_t begin, bool is_done) {
    if (begin == 0) return;
    const std::uint64_t end = trace::clock_ns(CLOCK_MONOTONIC);
    recorder_->driver_took(is_done ? std::optional(end - begin) : std::nullopt);
  }

  policy::DeviceMemory& memory_;
  DeviceRecorder* recorder_;
};

}  // namespace fragscope::recorder
