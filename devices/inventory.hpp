// SPDX-License-Identifier: Apache-2.0
// The devices of this machine, each by itself: who it is, by which number who knows it, what is
// free and who uses what. Made once, for `fragscope devices` and for reports that look back on it.
// Nothing is ever summed over devices: memory of one is of no use to the other.
#pragma once

#include "devices/cuda_driver.hpp"
#include "devices/nvml.hpp"
#include "devices/visible_devices.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::devices {

/// Where a number of CUDA comes from.
enum class OrdinalSource : std::uint8_t { kNone, kDriver, kVariable };

struct DeviceProcess {
  std::uint32_t pid = 0;   ///< As NVML counts.
  std::uint8_t kinds = 0;  ///< `ProcessKind`s.
  /// None: NVML does not know. Drivers that translate process ids for containers then say 0, which
  /// no process with a context uses.
  std::optional<std::uint64_t> used_bytes;
  std::optional<std::string> name;  ///< None: it is gone, or not visible in this namespace.
  bool is_visible = false;          ///< A process of this number can be seen from here.
};

struct InventoryDevice {
  std::string uuid;  ///< Empty: not known.
  std::string name;
  std::string pci_bus_id;              ///< Empty: not known.
  std::optional<unsigned> host_index;  ///< NVML's; of a MIG device its number within its GPU.
  std::optional<int> cuda_ordinal;     ///< Among those that this program sees.
  std::string mig_parent;              ///< The UUID of its GPU; empty: it is no MIG device.
  bool is_mig_enabled = false;         ///< It is cut into MIG devices, which follow it.
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> free_bytes;
  std::optional<std::uint64_t> used_bytes;
  std::optional<std::uint64_t> reserved_bytes;  ///< By the driver itself.
  bool is_memory_from_nvml = false;             ///< Else from the CUDA driver.
  std::optional<std::vector<DeviceProcess>> processes;
  std::vector<std::string> problems;  ///< What NVML refused to say, and why.
};

struct Inventory {
  std::int64_t unix_seconds = 0;
  std::string driver_version;  ///< Empty: not known.
  std::optional<int> cuda_version;
  std::string nvml_problem;                     ///< Empty: there is NVML.
  std::string cuda_problem;                     ///< Empty: the driver shows devices.
  std::optional<std::string> visible_variable;  ///< CUDA_VISIBLE_DEVICES
  std::optional<std::string> order_variable;    ///< CUDA_DEVICE_ORDER
  OrdinalSource ordinals = OrdinalSource::kNone;
  /// How the variable reads; where it stopped is no fault where the driver says so as well.
  VisibleDevices visible;
  /// Whether process ids here are the machine's; else those of NVML may be of another namespace.
  bool is_host_namespace = true;
  std::vector<InventoryDevice> devices;  ///< NVML's order, each GPU followed by its MIG devices.
};

/// What the environment says.
struct Environment {
  std::optional<std::string> visible_variable;
  std::optional<std::string> order_variable;
  bool is_host_namespace = true;
};

[[nodiscard]] Environment read_environment();

/// What is free on it is not known, and the driver would tell a program with a context there.
[[nodiscard]] inline bool could_be_asked_with_context(const InventoryDevice& device) {
  return !device.free_bytes && device.cuda_ordinal.has_value();
}

/// Puts together what was found. Fails: neither NVML nor the driver knows a device; the message
/// says what both said.
[[nodiscard]] Result<Inventory> make_inventory(const Result<Nvml>& nvml,
                                               const DriverAnswer& driver,
                                               const Environment& environment);

}  // namespace fragscope::devices
