// SPDX-License-Identifier: Apache-2.0
// Devices as `nvidia-smi -L` lists them, in a file of their own or somewhere in a log. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::explain {

struct ProcessBefore {
  std::uint64_t pid = 0;
  std::string name;  ///< Empty: not known.
  std::optional<std::uint64_t> used_bytes;
};

/// What a device had free at some time before the job, by `fragscope devices`.
struct DeviceBefore {
  std::string uuid;
  std::optional<std::uint64_t> time_s;  ///< Since the Unix epoch.
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> free_bytes;
  bool has_processes = false;  ///< Else nobody knew them.
  std::vector<ProcessBefore> processes;
};

struct Device {
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  std::string uuid;  ///< "GPU-..."
  std::optional<DeviceBefore> before;
};

/// By index, as the driver of the machine that printed the list counts.
using DeviceList = std::map<std::int32_t, Device>;

/// Adds the device of one line, "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)"; other lines say
/// nothing. Something may stand in front. Of two lines for one index the later one holds.
void add_device(std::string_view line, DeviceList& devices);

[[nodiscard]] DeviceList read_device_list(std::string_view listing);

/// What such a line holds.
[[nodiscard]] std::span<const std::string_view> device_phrases();

}  // namespace fragscope::explain
