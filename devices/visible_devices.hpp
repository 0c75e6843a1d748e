// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES as the CUDA driver reads it: which devices a program sees, and in which
// order. Used where the driver itself does not say, and to say where its reading stopped. Pure.
//
// Source: "CUDA Environment Variables" in NVIDIA's programming guide, and what PyTorch does before
// it loads CUDA (torch/cuda/__init__.py, _parse_visible_devices).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::devices {

/// A device that an entry can name.
struct Candidate {
  std::string uuid;             ///< "GPU-..." or, of a MIG device, "MIG-..."
  bool can_be_numbered = true;  ///< GPUs can, MIG devices cannot.
};

struct VisibleDevices {
  /// Places in the list of candidates, in the program's order.
  std::vector<std::size_t> shown;
  /// The entry at which reading stopped; what is behind it is not seen. None: all were read.
  std::optional<std::string> stopped_at;
  std::string reason;  ///< Why it stopped there.
};

/// `variable`: what CUDA_VISIBLE_DEVICES says; none: it is not set, and all GPUs are shown.
/// `candidates` in the order in which CUDA numbers them, which is that of NVML if
/// CUDA_DEVICE_ORDER is PCI_BUS_ID or all GPUs are of one kind.
[[nodiscard]] VisibleDevices read_visible_devices(std::optional<std::string_view> variable,
                                                  std::span<const Candidate> candidates);

}  // namespace fragscope::devices
