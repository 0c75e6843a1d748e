// SPDX-License-Identifier: Apache-2.0
// Who uses a device beside this process, asked of NVML as PyTorch asks for its out-of-memory
// message: by the device's place on the bus, compute processes alone, in NVML's order; and who is
// "this process" by its id, which in a container NVML may call by another. Where NVML is missing or
// says no, the list is empty and the job goes on.
//
// Takes milliseconds, and as long as the driver likes: see devices/nvml.hpp for where it may be
// called. Thread-safe.
#pragma once

#include "allocator/driver/driver_api.hpp"
#include "allocator/policy/inspect/out_of_memory_message.hpp"
#include "devices/nvml.hpp"
#include "trace/result.hpp"

#include <optional>
#include <string>
#include <vector>

namespace fragscope::live {

/// NVML and the device there. Plain data.
struct NvmlDevice {
  const devices::Nvml* nvml = nullptr;
  devices::NvmlHandle handle = nullptr;
};

/// Fails: there is no NVML, or it does not know the device; the message says why.
[[nodiscard]] Result<NvmlDevice> find_in_nvml(const driver::Api& api,
                                              driver::DeviceHandle ordinal,
                                              const Result<devices::Nvml>& nvml = devices::nvml());

/// Fails: NVML says no, with its word for why.
[[nodiscard]] Result<std::vector<policy::ProcessMemory>> list_processes(const NvmlDevice& device);

}  // namespace fragscope::live
