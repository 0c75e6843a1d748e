// SPDX-License-Identifier: Apache-2.0
// What a virtual device claims to be: name, memory, compute capability and the figures that
// programs read from cudaDeviceProp. Presets stand for cards that people have. Used by the options
// and by every entry point that describes a device.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fragscope::virtual_cuda {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;
inline constexpr std::uint64_t kTiB = 1024 * kGiB;

/// One kind of card.
struct DeviceModel {
  std::string_view preset;     ///< How options call it.
  std::string name;            ///< What cudaDeviceProp.name says.
  std::uint64_t memory_bytes;  ///< totalGlobalMem, less than what is printed on the box.
  int compute_major;
  int compute_minor;
  int multiprocessor_count;
  int threads_per_multiprocessor;
  int shared_kib_per_multiprocessor;
  int l2_kib;
  int bus_bits;
  int clock_mhz;
};

/// The presets, the default one first.
[[nodiscard]] std::span<const DeviceModel> device_presets();

/// The preset of this name, or null.
[[nodiscard]] const DeviceModel* find_preset(std::string_view name);

}  // namespace fragscope::virtual_cuda
