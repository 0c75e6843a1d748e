// SPDX-License-Identifier: Apache-2.0
// What the CUDA driver says about the devices that it shows to this process, found at run time in
// libcuda.so.1. Only `fragscope devices` asks here; the allocator has the driver open anyway. No
// CUDA context is made unless it is wished: one takes hundreds of MiB of the very memory that is
// asked about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::devices {

struct DriverDevice {
  std::string name;
  std::string uuid;        ///< As `uuid_text` writes it; of a MIG device the MIG device's own.
  std::string pci_bus_id;  ///< As NVML writes it; of a MIG device its GPU's.
  std::uint64_t total_bytes = 0;
  std::optional<std::uint64_t> free_bytes;  ///< Only with a context.
};

struct DriverAnswer {
  std::optional<int> cuda_version;  ///< The newest CUDA that it serves, as 13020. None: no driver.
  std::string problem;              ///< Why there are no devices; empty: there are.
  bool shows_none = false;          ///< The problem is only that it shows this process none.
  std::vector<DriverDevice> devices;  ///< By CUDA's ordinal.
};

enum class WithContext : std::uint8_t { kNo, kYes };

/// With a context on each device, one after the other, what is free is known, too.
[[nodiscard]] DriverAnswer ask_cuda_driver(WithContext context);

/// "GPU-" and 32 digits in five groups.
[[nodiscard]] std::string uuid_text(const char (&bytes)[16]);

}  // namespace fragscope::devices
