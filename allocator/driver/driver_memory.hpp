// SPDX-License-Identifier: Apache-2.0
// A device's memory, as the CUDA driver gives it, behind the policy's seam. Whatever device is
// current in the calling thread stays so. Not thread-safe; called under the device's lock, and only
// where the cache does not serve.
#pragma once

#include "allocator/driver/driver_api.hpp"
#include "allocator/policy/device/device_memory.hpp"
#include "trace/result.hpp"

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::driver {

/// Makes a device's context the thread's current one, and puts the other back in the end.
class CurrentContext {
 public:
  CurrentContext(const Api& api, ContextHandle context);
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext();

 private:
  const Api& api_;
  ContextHandle before_ = nullptr;
  bool is_changed_ = false;
};

/// One of the visible devices. Plain data.
struct Device {
  DeviceHandle ordinal = 0;
  ContextHandle context = nullptr;  ///< The primary one, which the CUDA runtime uses, too.
  std::array<char, 16> uuid = {};
  std::string name;
  std::uint64_t total_bytes = 0;
};

/// Makes the device's primary context, if nobody has yet. Fails: no such device, or the driver says
/// no, with its reason.
[[nodiscard]] Result<Device> open_device(const Api& api, DeviceHandle ordinal);

/// What can be known of the device without a context, which would take memory on it.
[[nodiscard]] Device describe_device(const Api& api, DeviceHandle ordinal);

class DriverMemory final : public policy::DeviceMemory {
 public:
  /// Both outlive this.
  DriverMemory(const Api& api, const Device& device);

  [[nodiscard]] std::optional<policy::Address> allocate(std::uint64_t size) override;
  void free(policy::Address address, std::uint64_t size) override;
  [[nodiscard]] std::optional<policy::Address> reserve(std::uint64_t size) override;
  [[nodiscard]] bool map(policy::Address address,
                         std::uint64_t size,
                         std::uint64_t page_size) override;
  /// Waits for all work of the device: pages go at once, whoever still uses them.
  void unmap(policy::Address address, std::uint64_t size) override;
  void release(policy::Address address, std::uint64_t size) override;
  [[nodiscard]] policy::Capacity capacity() const override;

  /// Makes pages readable from another device, those to come too. False: the driver says no.
  [[nodiscard]] bool add_peer(DeviceHandle ordinal);

  /// What the driver said last, if that was neither success nor "out of memory".
  [[nodiscard]] Status last_error() const { return last_error_; }

 private:
  struct Pages {
    PagesHandle handle = 0;
    std::uint64_t size = 0;
  };

  [[nodiscard]] bool is_done(Status status) const;
  [[nodiscard]] bool map_page(policy::Address address, std::uint64_t size);

  const Api& api_;
  const Device& device_;
  PageProperties properties_;
  std::vector<PageAccess> access_;                     // of this device and its peers
  absl::flat_hash_map<policy::Address, Pages> pages_;  // by start
  mutable Status last_error_ = kSuccess;
};

}  // namespace fragscope::driver
