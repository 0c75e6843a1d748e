// SPDX-License-Identifier: Apache-2.0
// The driver's virtual memory calls: address ranges, physical pages, and the mapping of one to the
// other. What PyTorch's expandable segments are made of. Owned by the machine, used under its lock.
#pragma once

#include "virtual_cuda/abi/status.hpp"
#include "virtual_cuda/abi/vmm_types.hpp"
#include "virtual_cuda/device/device.hpp"
#include "virtual_cuda/device/fault_plan.hpp"
#include "virtual_cuda/memory/memory_map.hpp"

#include <cstdint>
#include <map>
#include <unordered_map>

namespace fragscope::virtual_cuda {

using PageHandle = std::uint64_t;

/// Where to map which pages.
struct MapRequest {
  AddressRange range;
  std::uint64_t offset_bytes = 0;
  PageHandle handle = 0;
};

/// Who owns what:
///
///   create, retain: one handle reference more     release: one less
///   map: one mapping more                         unmap: one less
///
/// The device gets its bytes back when both counts are 0, so pages whose handle is released while
/// they are mapped stay until they are unmapped. A range is unreadable until access is set.
class VirtualMemory {
 public:
  VirtualMemory(MemoryMap& map, FaultPlan& faults);

  /// `device` is null for pages of the host, which no books count.
  [[nodiscard]] Status create(Device* device,
                              const CUmemAllocationProp& properties,
                              std::uint64_t size_bytes,
                              PageHandle* handle);
  [[nodiscard]] Status release(PageHandle handle);
  /// One more reference to the pages that are mapped at `address`.
  [[nodiscard]] Status retain(std::uint64_t address, PageHandle* handle);
  [[nodiscard]] Status properties(PageHandle handle, CUmemAllocationProp* properties) const;

  /// Addresses come from the window of `device`.
  [[nodiscard]] Status reserve(Device& device, AddressRequest request, std::uint64_t* begin);
  /// `range` is one that `reserve` gave, with nothing mapped in it.
  [[nodiscard]] Status free_addresses(AddressRange range);

  [[nodiscard]] Status map(const MapRequest& request);
  /// `range` begins and ends where mappings do.
  [[nodiscard]] Status unmap(AddressRange range);
  /// Every byte of `range` must be mapped.
  [[nodiscard]] Status set_access(AddressRange range);

 private:
  struct Pages {
    Device* device;
    std::uint64_t size_bytes;
    std::uint32_t handle_count;
    std::uint32_t mapping_count;
    CUmemAllocationProp properties;
  };
  struct Mapping {
    std::uint64_t size_bytes;
    PageHandle handle;
  };

  void free_if_unused(PageHandle handle);
  /// Whether mappings tile `range` exactly.
  [[nodiscard]] bool is_tiled(AddressRange range) const;

  MemoryMap& map_;
  FaultPlan& faults_;
  PageHandle last_handle_ = 0;
  std::unordered_map<PageHandle, Pages> pages_;
  std::map<std::uint64_t, Device*> reservations_;  // By first address.
  std::map<std::uint64_t, Mapping> mappings_;      // By first address.
};

}  // namespace fragscope::virtual_cuda
