// SPDX-License-Identifier: Apache-2.0
// The text of PyTorch's out-of-memory exception, word for word.
#pragma once

#include "allocator/policy/caching_policy.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace fragscope::policy {

/// A process on the device, as NVML shows it.
struct ProcessMemory {
  std::uint64_t pid = 0;
  std::uint64_t bytes = 0;
  bool is_this = false;
};

/// "512.00 KiB": as PyTorch prints a size, in the largest of bytes, KiB, MiB and GiB that is
/// exceeded.
[[nodiscard]] std::string format_size(std::uint64_t bytes);

/// What the exception says of `failure`. `processes` in NVML's order; empty where there is no NVML.
/// Source: the messages of PyTorch 2.6 and 2.15, compared by tests/fidelity.
[[nodiscard]] std::string out_of_memory_message(const AllocationFailure& failure,
                                                const PolicyOptions& options,
                                                int device,
                                                std::span<const ProcessMemory> processes);

}  // namespace fragscope::policy
