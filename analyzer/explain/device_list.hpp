// SPDX-License-Identifier: Apache-2.0
// Devices as `nvidia-smi -L` lists them, in a file of their own or somewhere in a log. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fragscope::explain {

struct Device {
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  std::string uuid;  ///< "GPU-..."
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
