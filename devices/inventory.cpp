// SPDX-License-Identifier: Apache-2.0
#include "devices/inventory.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace fragscope::devices {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) return std::nullopt;
  return std::string(text);
}

/// Without "GPU-" or "MIG-", which the driver does not say.
std::string_view digits_of(std::string_view uuid) {
  const bool has_kind = uuid.starts_with("GPU-") || uuid.starts_with("MIG-");
  return has_kind ? uuid.substr(4) : uuid;
}

template <class T>
std::optional<T> take(Result<T> answer, InventoryDevice& device) {
  if (answer) return std::optional<T>(std::move(*answer));
  device.problems.push_back(answer.error().message);
  return std::nullopt;
}

std::vector<DeviceProcess> describe(const Nvml& nvml, const std::vector<ProcessUse>& uses) {
  std::vector<DeviceProcess> processes;
  processes.reserve(uses.size());
  for (const ProcessUse& use : uses) {
    DeviceProcess process;
    process.pid = use.pid;
    process.kinds = use.kinds;
    if (use.used_bytes.value_or(0) > 0) process.used_bytes = use.used_bytes;
    process.name = nvml.process_name(use.pid);
    process.is_visible =
        process.name || ::access(("/proc/" + std::to_string(use.pid)).c_str(), F_OK) == 0;
    processes.push_back(std::move(process));
  }
  return processes;
}

InventoryDevice describe(const Nvml& nvml, NvmlHandle handle) {
  InventoryDevice device;
  device.uuid = take(nvml.device_uuid(handle), device).value_or("");
  device.name = take(nvml.device_name(handle), device).value_or("");
  device.host_index = take(nvml.device_index(handle), device);
  if (const auto memory = take(nvml.memory(handle), device)) {
    device.total_bytes = memory->total_bytes;
    device.free_bytes = memory->free_bytes;
    device.used_bytes = memory->used_bytes;
    device.reserved_bytes = memory->reserved_bytes;
    device.is_memory_from_nvml = true;
  }
  if (const auto uses = take(nvml.all_processes(handle), device)) {
    device.processes = describe(nvml, *uses);
  }
  return device;
}

void add_devices_of_nvml(const Nvml& nvml, Inventory& inventory) {
  if (auto version = nvml.driver_version()) inventory.driver_version = std::move(*version);
  const auto count = nvml.device_count();
  if (!count) {
    inventory.nvml_problem = count.error().message;
    return;
  }
  for (unsigned i = 0; i < *count; ++i) {
    const auto handle = nvml.device_by_index(i);
    if (!handle) {
      // Such as a card that fell off the bus; the others are there.
      InventoryDevice lost;
      lost.host_index = i;
      lost.problems.push_back(handle.error().message);
      inventory.devices.push_back(std::move(lost));
      continue;
    }
    InventoryDevice device = describe(nvml, *handle);
    device.is_mig_enabled = nvml.is_mig(*handle);
    const std::string parent = device.uuid;
    const bool has_parts = device.is_mig_enabled;
    inventory.devices.push_back(std::move(device));
    if (!has_parts) continue;
    for (NvmlHandle part : nvml.mig_devices(*handle)) {
      inventory.devices.push_back(describe(nvml, part));
      inventory.devices.back().mig_parent = parent;
    }
  }
}

/// What the driver shows belongs to the device of the same UUID.
void add_devices_of_driver(const DriverAnswer& driver, Inventory& inventory) {
  for (std::size_t ordinal = 0; ordinal < driver.devices.size(); ++ordinal) {
    const DriverDevice& shown = driver.devices[ordinal];
    auto known = std::find_if(inventory.devices.begin(),
                              inventory.devices.end(),
                              [&shown](const InventoryDevice& device) {
                                return digits_of(device.uuid) == digits_of(shown.uuid);
                              });
    if (known == inventory.devices.end()) {
      InventoryDevice device;
      device.uuid = shown.uuid;
      device.name = shown.name;
      known = inventory.devices.insert(known, std::move(device));
    }
    known->cuda_ordinal = static_cast<int>(ordinal);
    if (known->pci_bus_id.empty()) known->pci_bus_id = shown.pci_bus_id;
    if (known->is_memory_from_nvml) continue;
    known->total_bytes = shown.total_bytes;
    known->free_bytes = shown.free_bytes;
    if (shown.free_bytes) known->used_bytes = shown.total_bytes - *shown.free_bytes;
  }
}

/// Whether CUDA numbers the GPUs as NVML does: by default it begins with the fastest.
bool is_order_known(const Inventory& inventory) {
  if (inventory.order_variable == "PCI_BUS_ID") return true;
  return std::all_of(inventory.devices.begin(),
                     inventory.devices.end(),
                     [&inventory](const InventoryDevice& device) {
                       return !device.mig_parent.empty() ||
                              device.name == inventory.devices.front().name;
                     });
}

void read_variable(const DriverAnswer& driver, Inventory& inventory) {
  std::vector<Candidate> candidates;
  candidates.reserve(inventory.devices.size());
  for (const InventoryDevice& device : inventory.devices)
    candidates.push_back({device.uuid, device.mig_parent.empty()});
  std::optional<std::string_view> text;
  if (inventory.visible_variable) text = *inventory.visible_variable;
  inventory.visible = read_visible_devices(text, candidates);
  // Without NVML the list is the driver's, which has left out what the variable hides.
  if (!inventory.nvml_problem.empty()) inventory.visible = {};
  if (!driver.devices.empty() || driver.shows_none) {
    inventory.ordinals = OrdinalSource::kDriver;
    return;
  }
  if (!is_order_known(inventory)) return;
  inventory.ordinals = OrdinalSource::kVariable;
  for (std::size_t ordinal = 0; ordinal < inventory.visible.shown.size(); ++ordinal) {
    inventory.devices[inventory.visible.shown[ordinal]].cuda_ordinal = static_cast<int>(ordinal);
  }
}

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.visible_variable = variable("CUDA_VISIBLE_DEVICES");
  environment.order_variable = variable("CUDA_DEVICE_ORDER");
  // The number of the first namespace is fixed in Linux (PROC_PID_INIT_INO).
  constexpr std::string_view kFirst = "pid:[4026531836]";
  std::array<char, 64> link{};
  const ssize_t size = ::readlink("/proc/self/ns/pid", link.data(), link.size());
  environment.is_host_namespace =
      size > 0 && std::string_view(link.data(), static_cast<std::size_t>(size)) == kFirst;
  return environment;
}

Result<Inventory> make_inventory(const Result<Nvml>& nvml,
                                 const DriverAnswer& driver,
                                 const Environment& environment) {
  Inventory inventory;
  inventory.cuda_version = driver.cuda_version;
  inventory.cuda_problem = driver.problem;
  inventory.visible_variable = environment.visible_variable;
  inventory.order_variable = environment.order_variable;
  inventory.is_host_namespace = environment.is_host_namespace;
  if (nvml) {
    add_devices_of_nvml(*nvml, inventory);
  } else {
    inventory.nvml_problem = nvml.error().message;
  }
  add_devices_of_driver(driver, inventory);
  if (inventory.devices.empty()) {
    return failure(
        ErrorCode::kUnreadable,
        "no device: " +
            (inventory.nvml_problem.empty() ? "NVML knows none" : inventory.nvml_problem) + "; " +
            driver.problem);
  }
  read_variable(driver, inventory);
  return inventory;
}

}  // namespace fragscope::devices
