// SPDX-License-Identifier: Apache-2.0
// The figures of a device that programs ask for one by one: cudaDeviceGetAttribute and
// cuDeviceGetAttribute share their numbers. Used by libcudart, libcuda and libnvml.
#pragma once

#include "virtual_cuda/device/device.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace fragscope::virtual_cuda {

/// The value of a cudaDeviceAttr, or nothing for one that is not known here.
[[nodiscard]] std::optional<int> device_attribute(const Device& device, std::int32_t attribute);

/// Every device has a bus of its own.
[[nodiscard]] int pci_bus(const Device& device);

/// The sixteen bytes of cudaDeviceProp.uuid, which NVML prints as "GPU-...".
[[nodiscard]] std::array<std::uint8_t, 16> device_uuid(const Device& device);
[[nodiscard]] std::string device_uuid_text(const Device& device);

/// Shared memory figures, in bytes.
[[nodiscard]] int shared_bytes_per_multiprocessor(const Device& device);
[[nodiscard]] int shared_bytes_per_block_optin(const Device& device);

inline constexpr int kSharedBytesPerBlock = 48 * 1024;
inline constexpr int kRegisterCount = 65536;
inline constexpr int kWarpSize = 32;
inline constexpr int kMaxThreadsPerBlock = 1024;

}  // namespace fragscope::virtual_cuda
