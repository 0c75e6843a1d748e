// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/memory/allocations.hpp"

#include "virtual_cuda/memory/host_pages.hpp"

namespace fragscope::virtual_cuda {
namespace {

constexpr std::uint64_t kHostPageBytes = 4096;

}  // namespace

Allocations::Allocations(MemoryMap& map, FaultPlan& faults)
    : map_(map)
    , faults_(faults)
    , pinned_(kPinnedWindow, kHostPageBytes) {}

Status Allocations::allocate(Device& device, MemoryEntry wanted, std::uint64_t* begin) {
  device.begin_attempt();
  if (faults_.strike(FaultKind::kMalloc)) return Status::kOutOfMemory;
  const auto range = device.addresses().reserve({.size_bytes = wanted.range.size_bytes});
  if (!range) return Status::kOutOfMemory;
  if (!device.take(range->size_bytes)) {
    static_cast<void>(device.addresses().release(range->begin));
    return Status::kOutOfMemory;
  }
  wanted.range = *range;
  if (!host_pages::open(*range) || !map_.insert(wanted)) {
    device.give(range->size_bytes);
    static_cast<void>(device.addresses().release(range->begin));
    return Status::kOutOfMemory;
  }
  *begin = range->begin;
  return Status::kSuccess;
}

Status Allocations::release(Device& device, const MemoryEntry& entry) {
  const AddressRange range = entry.range;  // `entry` lies in the map and dies with the next line.
  map_.erase(range.begin);
  host_pages::close(range);
  device.give(range.size_bytes);
  return device.addresses().release(range.begin) ? Status::kSuccess : Status::kUnknown;
}

Status Allocations::allocate_pinned(MemoryEntry wanted, std::uint64_t* begin) {
  if (faults_.strike(FaultKind::kHost)) return Status::kOutOfMemory;
  const auto range = pinned_.reserve({.size_bytes = wanted.range.size_bytes});
  if (!range) return Status::kOutOfMemory;
  wanted.range = *range;
  wanted.kind = MemoryKind::kPinned;
  if (!host_pages::open(*range) || !map_.insert(wanted)) {
    static_cast<void>(pinned_.release(range->begin));
    return Status::kOutOfMemory;
  }
  *begin = range->begin;
  return Status::kSuccess;
}

Status Allocations::release_pinned(std::uint64_t begin) {
  const MemoryEntry* const entry = map_.find_begin(begin);
  if (entry == nullptr || entry->kind != MemoryKind::kPinned) return Status::kInvalidValue;
  host_pages::close(entry->range);
  map_.erase(begin);
  return pinned_.release(begin) ? Status::kSuccess : Status::kUnknown;
}

Status Allocations::register_host(const MemoryEntry& entry) {
  if (entry.range.begin == 0 || entry.range.size_bytes == 0) return Status::kInvalidValue;
  MemoryEntry registered = entry;
  registered.kind = MemoryKind::kRegistered;
  return map_.insert(registered) ? Status::kSuccess : Status::kHostMemoryAlreadyRegistered;
}

Status Allocations::unregister_host(std::uint64_t begin) {
  const MemoryEntry* const entry = map_.find_begin(begin);
  if (entry == nullptr || entry->kind != MemoryKind::kRegistered) {
    return Status::kHostMemoryNotRegistered;
  }
  map_.erase(begin);
  return Status::kSuccess;
}

}  // namespace fragscope::virtual_cuda
