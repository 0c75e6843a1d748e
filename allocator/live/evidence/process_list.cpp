// SPDX-License-Identifier: Apache-2.0
#include "allocator/live/evidence/process_list.hpp"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>

namespace fragscope::live {
namespace {

// CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, _BUS_ID, _DEVICE_ID
constexpr std::array<std::int32_t, 3> kPlaceAttributes = {50, 33, 34};

}  // namespace

Result<NvmlDevice> find_in_nvml(const driver::Api& api,
                                driver::DeviceHandle ordinal,
                                const Result<devices::Nvml>& nvml) {
  if (!nvml) return tl::unexpected(nvml.error());
  std::array<int, 3> place{};
  for (std::size_t i = 0; i < place.size(); ++i) {
    const driver::Status status = api.device_get_attribute(&place[i], kPlaceAttributes[i], ordinal);
    if (status != driver::kSuccess) {
      return failure(ErrorCode::kUnreadable, "cuDeviceGetAttribute: " + api.name_of(status));
    }
  }
  std::array<char, 40> bus_id{};
  std::snprintf(bus_id.data(),
                bus_id.size(),
                "%08X:%02X:%02X.0",
                static_cast<unsigned>(place[0]),
                static_cast<unsigned>(place[1]),
                static_cast<unsigned>(place[2]));
  return nvml->device_by_pci(bus_id.data()).map([&nvml](devices::NvmlHandle handle) {
    return NvmlDevice{&*nvml, handle};
  });
}

Result<std::vector<policy::ProcessMemory>> list_processes(const NvmlDevice& device) {
  const auto uses = device.nvml->compute_processes(device.handle);
  if (!uses) return tl::unexpected(uses.error());
  const auto self = static_cast<std::uint32_t>(::getpid());
  std::vector<policy::ProcessMemory> processes;
  processes.reserve(uses->size());
  for (const devices::ProcessUse& use : *uses) {
    // What NVML does not know is its "not available", which PyTorch prints as the number it is.
    processes.push_back({use.pid,
                         use.used_bytes.value_or(std::numeric_limits<std::uint64_t>::max()),
                         use.pid == self});
  }
  return processes;
}

}  // namespace fragscope::live
