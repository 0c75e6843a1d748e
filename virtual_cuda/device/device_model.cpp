// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/device/device_model.hpp"

#include <algorithm>
#include <array>

namespace fragscope::virtual_cuda {

std::span<const DeviceModel> device_presets() {
  // Memory: the total that PyTorch's out-of-memory messages from such cards print (79.11 GiB for an
  // H100 of 80 GB), to the hundredth of a GiB that they print. The rest is from NVIDIA's data
  // sheets.
  static const auto* const presets = new auto(std::to_array<DeviceModel>({
      {"h100-80g", "NVIDIA H100 80GB HBM3", 81009 * kMiB, 9, 0, 132, 2048, 228, 51200, 5120, 1980},
      {"h200-141g", "NVIDIA H200", 143166 * kMiB, 9, 0, 132, 2048, 228, 51200, 6144, 1980},
      {"b200-180g", "NVIDIA B200", 182631 * kMiB, 10, 0, 148, 2048, 228, 129536, 8192, 1965},
      {"a100-80g", "NVIDIA A100-SXM4-80GB", 81050 * kMiB, 8, 0, 108, 2048, 164, 40960, 5120, 1410},
      {"a100-40g", "NVIDIA A100-SXM4-40GB", 40336 * kMiB, 8, 0, 108, 2048, 164, 40960, 5120, 1410},
      {"l40s-48g", "NVIDIA L40S", 45589 * kMiB, 8, 9, 142, 1536, 100, 98304, 384, 2520},
      {"rtx4090-24g",
       "NVIDIA GeForce RTX 4090",
       24208 * kMiB,
       8,
       9,
       128,
       1536,
       100,
       73728,
       384,
       2520},
      {"rtx3090-24g",
       "NVIDIA GeForce RTX 3090",
       24259 * kMiB,
       8,
       6,
       82,
       1536,
       100,
       6144,
       384,
       1695},
      {"v100-16g", "Tesla V100-SXM2-16GB", 16159 * kMiB, 7, 0, 80, 2048, 96, 6144, 4096, 1530},
      {"t4-16g", "Tesla T4", 15094 * kMiB, 7, 5, 40, 1024, 64, 4096, 256, 1590},
  }));
  return *presets;
}

const DeviceModel* find_preset(std::string_view name) {
  const auto presets = device_presets();
  const auto found = std::find_if(presets.begin(), presets.end(), [name](const DeviceModel& model) {
    return model.preset == name;
  });
  return found == presets.end() ? nullptr : &*found;
}

}  // namespace fragscope::virtual_cuda
