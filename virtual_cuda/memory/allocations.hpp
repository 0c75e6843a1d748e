// SPDX-License-Identifier: Apache-2.0
// Memory in one piece: on a device, pinned on the host, or registered. The calls behind cudaMalloc,
// cudaHostAlloc and their relatives. Owned by the machine and used under its lock.
#pragma once

#include "virtual_cuda/abi/status.hpp"
#include "virtual_cuda/device/device.hpp"
#include "virtual_cuda/device/fault_plan.hpp"
#include "virtual_cuda/memory/memory_map.hpp"

#include <cstdint>

namespace fragscope::virtual_cuda {

/// Pinned host memory has a window of its own, behind those of the devices.
inline constexpr AddressRange kPinnedWindow{kFirstWindow + kMaxDevices * kWindowBytes,
                                            kWindowBytes / 2};

/// Takes memory from a device's books and addresses, or gives it back. Every piece of device memory
/// takes whole pages of 2 MiB, as a real driver's books show it for pieces of that size and above.
class Allocations {
 public:
  Allocations(MemoryMap& map, FaultPlan& faults);

  /// Device memory of `kind`. Fails: a fault was asked for, capacity, or no addresses.
  [[nodiscard]] Status allocate(Device& device, MemoryEntry wanted, std::uint64_t* begin);
  /// Gives back what `allocate` gave; `device` is the one of the entry.
  [[nodiscard]] Status release(Device& device, const MemoryEntry& entry);

  [[nodiscard]] Status allocate_pinned(MemoryEntry wanted, std::uint64_t* begin);
  [[nodiscard]] Status release_pinned(std::uint64_t begin);

  [[nodiscard]] Status register_host(const MemoryEntry& entry);
  [[nodiscard]] Status unregister_host(std::uint64_t begin);

 private:
  MemoryMap& map_;
  FaultPlan& faults_;
  AddressSpace pinned_;
};

}  // namespace fragscope::virtual_cuda
