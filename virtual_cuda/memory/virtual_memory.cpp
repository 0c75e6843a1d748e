// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/memory/virtual_memory.hpp"

#include "virtual_cuda/memory/host_pages.hpp"

#include <iterator>

namespace fragscope::virtual_cuda {
namespace {

bool is_whole_pages(std::uint64_t bytes) {
  return bytes != 0 && bytes % kPageBytes == 0;
}

}  // namespace

VirtualMemory::VirtualMemory(MemoryMap& map, FaultPlan& faults)
    : map_(map)
    , faults_(faults) {}

Status VirtualMemory::create(Device* device,
                             const CUmemAllocationProp& properties,
                             std::uint64_t size_bytes,
                             PageHandle* handle) {
  if (!is_whole_pages(size_bytes)) return Status::kInvalidValue;
  if (device != nullptr) {
    device->begin_attempt();
    if (faults_.strike(FaultKind::kCreate) || !device->take(size_bytes)) {
      return Status::kOutOfMemory;
    }
  }
  *handle = ++last_handle_;
  pages_.emplace(*handle, Pages{device, size_bytes, 1, 0, properties});
  return Status::kSuccess;
}

Status VirtualMemory::release(PageHandle handle) {
  const auto found = pages_.find(handle);
  if (found == pages_.end() || found->second.handle_count == 0) return Status::kInvalidValue;
  --found->second.handle_count;
  free_if_unused(handle);
  return Status::kSuccess;
}

Status VirtualMemory::retain(std::uint64_t address, PageHandle* handle) {
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return Status::kInvalidValue;
  const auto& [begin, mapping] = *std::prev(after);
  if (address - begin >= mapping.size_bytes) return Status::kInvalidValue;
  ++pages_.at(mapping.handle).handle_count;
  *handle = mapping.handle;
  return Status::kSuccess;
}

Status VirtualMemory::properties(PageHandle handle, CUmemAllocationProp* properties) const {
  const auto found = pages_.find(handle);
  if (found == pages_.end()) return Status::kInvalidValue;
  *properties = found->second.properties;
  return Status::kSuccess;
}

Status VirtualMemory::reserve(Device& device, AddressRequest request, std::uint64_t* begin) {
  if (!is_whole_pages(request.size_bytes)) return Status::kInvalidValue;
  if (faults_.strike(FaultKind::kReserve)) return Status::kOutOfMemory;
  const auto range = device.addresses().reserve(request);
  if (!range) return Status::kOutOfMemory;
  reservations_.emplace(range->begin, &device);
  *begin = range->begin;
  return Status::kSuccess;
}

Status VirtualMemory::free_addresses(AddressRange range) {
  const auto found = reservations_.find(range.begin);
  if (found == reservations_.end()) return Status::kInvalidValue;
  AddressSpace& addresses = found->second->addresses();
  if (addresses.find(range.begin) != range || map_.overlaps(range)) return Status::kInvalidValue;
  reservations_.erase(found);
  return addresses.release(range.begin) ? Status::kSuccess : Status::kUnknown;
}

Status VirtualMemory::map(const MapRequest& request) {
  const auto pages = pages_.find(request.handle);
  if (pages == pages_.end()) return Status::kInvalidValue;
  if (!is_whole_pages(request.range.size_bytes) || request.range.begin % kPageBytes != 0 ||
      request.offset_bytes != 0 || request.range.size_bytes > pages->second.size_bytes) {
    return Status::kInvalidValue;
  }
  const auto after = reservations_.upper_bound(request.range.begin);
  if (after == reservations_.begin()) return Status::kInvalidValue;
  Device& home = *std::prev(after)->second;
  const auto reserved = home.addresses().find(request.range.begin);
  if (!reserved || request.range.end() > reserved->end()) return Status::kInvalidValue;
  if (faults_.strike(FaultKind::kMap)) return Status::kOutOfMemory;

  const Device* const owner = pages->second.device != nullptr ? pages->second.device : &home;
  const MemoryEntry entry{request.range, MemoryKind::kMapped, owner->index(), 0};
  if (!map_.insert(entry)) return Status::kInvalidValue;
  ++pages->second.mapping_count;
  mappings_.emplace(request.range.begin, Mapping{request.range.size_bytes, request.handle});
  return Status::kSuccess;
}

Status VirtualMemory::unmap(AddressRange range) {
  if (!is_tiled(range)) return Status::kInvalidValue;
  host_pages::close(range);
  auto mapping = mappings_.find(range.begin);
  while (mapping != mappings_.end() && mapping->first < range.end()) {
    map_.erase(mapping->first);
    --pages_.at(mapping->second.handle).mapping_count;
    free_if_unused(mapping->second.handle);
    mapping = mappings_.erase(mapping);
  }
  return Status::kSuccess;
}

Status VirtualMemory::set_access(AddressRange range) {
  if (!is_tiled(range)) return Status::kInvalidValue;
  if (faults_.strike(FaultKind::kAccess)) return Status::kUnknown;
  return host_pages::open(range) ? Status::kSuccess : Status::kOutOfMemory;
}

void VirtualMemory::free_if_unused(PageHandle handle) {
  const auto found = pages_.find(handle);
  if (found->second.handle_count > 0 || found->second.mapping_count > 0) return;
  if (found->second.device != nullptr) found->second.device->give(found->second.size_bytes);
  pages_.erase(found);
}

bool VirtualMemory::is_tiled(AddressRange range) const {
  if (range.size_bytes == 0) return false;
  std::uint64_t at = range.begin;
  for (auto mapping = mappings_.find(at); mapping != mappings_.end() && mapping->first == at;
       ++mapping) {
    at += mapping->second.size_bytes;
    if (at >= range.end()) return at == range.end();
  }
  return false;
}

}  // namespace fragscope::virtual_cuda
