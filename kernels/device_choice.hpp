// SPDX-License-Identifier: Apache-2.0
// Where a scan runs, and why there. Used by all scans and by whoever reports which one ran.
#pragma once

#include "trace/result.hpp"

#include <cstdint>
#include <string>

namespace fragscope::kernels {

enum class Device : std::uint8_t {
  kAuto,  ///< Whichever should be done first.
  kCpu,
  kCuda,
};

/// What was chosen. `device` is never `kAuto`.
struct DeviceChoice {
  Device device = Device::kCpu;
  std::string reason;  ///< One sentence: "the CPU, since ...".
};

/// Chooses for a scan that reads `work_bytes` of host memory. `kAuto` measures, once in the life of
/// the process and only if the work is large and there is a GPU, how fast each side is. Fails:
/// `kCuda` was asked for and no GPU can be used; the error names the reason as CUDA does.
[[nodiscard]] Result<DeviceChoice> choose_device(Device wanted, std::uint64_t work_bytes);

/// How fast the sides are at the run scan, by measurement.
struct ScanSpeeds {
  double cpu_bytes_per_s = 0;   ///< All cores.
  double cuda_bytes_per_s = 0;  ///< From host memory, so the transfer is in it.
  double cuda_start_s = 0;      ///< What a scan costs there however small it is.
};

/// The rule behind `kAuto` once both sides are measured: CUDA if it is done first.
[[nodiscard]] DeviceChoice choose_by_speed(const ScanSpeeds& speeds, std::uint64_t work_bytes);

}  // namespace fragscope::kernels
