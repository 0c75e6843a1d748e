// SPDX-License-Identifier: Apache-2.0
// Which GPUs this process can use, and what this build brings for them. Used by the command line
// (`--version`) and by whoever must choose between a CPU and a CUDA scan. It creates no context, so
// asking costs no device memory. Who uses the memory of a device is another question, not answered
// here.
#pragma once

#include "trace/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::kernels {

/// One GPU as the CUDA runtime shows it to this process.
struct CudaDevice {
  int ordinal = 0;  ///< Counted within CUDA_VISIBLE_DEVICES.
  std::string name;
  std::string uuid;  ///< As nvidia-smi prints it: "GPU-" and 32 digits in five groups.
  int compute_major = 0;
  int compute_minor = 0;
  std::uint64_t total_bytes = 0;
};

/// What this build was made with: "CUDA 13.0 for sm_80, sm_90, sm_100" or "built without CUDA".
[[nodiscard]] std::string_view cuda_build();

/// The usable GPUs, at least one.
/// Fails: where there is none, with the reason as the CUDA runtime names it; a machine without a
/// driver, with too old a driver and with every device hidden are told apart only by that name.
[[nodiscard]] Result<std::vector<CudaDevice>> find_cuda_devices();

}  // namespace fragscope::kernels
