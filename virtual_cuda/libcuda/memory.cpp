// SPDX-License-Identifier: Apache-2.0
// The driver's calls about memory: virtual memory first of all.
#include "virtual_cuda/core/call.hpp"
#include "virtual_cuda/core/unimplemented.hpp"

#include <cstring>
#include <string>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

// CUpointer_attribute.
enum class PointerAttribute : std::int32_t {
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kSyncMemops = 6,
  kBufferId = 7,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIsIpcCapable = 10,
  kRangeStart = 11,
  kRangeSize = 12,
  kMapped = 13,
};

// Answers with a value of the type that the attribute has.
template <class T>
Status answer(void* out, T value) {
  std::memcpy(out, &value, sizeof(value));
  return Status::kSuccess;
}

Status pointer_attribute(Call& call,
                         const MemoryEntry& entry,
                         PointerAttribute attribute,
                         std::uint64_t pointer,
                         void* out) {
  const bool on_device = is_device_memory(entry.kind);
  switch (attribute) {
    case PointerAttribute::kMemoryType:
      return answer(out, on_device ? 2U : 1U);
    case PointerAttribute::kDevicePointer:
      return answer(out, pointer);
    case PointerAttribute::kHostPointer:
      return on_device ? Status::kInvalidValue : answer(out, pointer);
    case PointerAttribute::kSyncMemops:
    case PointerAttribute::kIsIpcCapable:
      return answer(out, 0);
    case PointerAttribute::kBufferId:
      return answer(out, entry.range.begin / kPageBytes);
    case PointerAttribute::kIsManaged:
      return answer(out, entry.kind == MemoryKind::kManaged ? 1 : 0);
    case PointerAttribute::kDeviceOrdinal:
      return answer(out, call.machine.ordinal_of(entry.device));
    case PointerAttribute::kRangeStart:
      return answer(out, entry.range.begin);
    case PointerAttribute::kRangeSize:
      return answer(out, entry.range.size_bytes);
    case PointerAttribute::kMapped:
      return answer(out, 1);
  }
  say_unimplemented("cuPointerGetAttribute(" + std::to_string(static_cast<int>(attribute)) + ")");
  return Status::kNotSupported;
}

}  // namespace

extern "C" {

std::int32_t cuMemGetAllocationGranularity(std::size_t* bytes,
                                           const CUmemAllocationProp*,
                                           std::int32_t) {
  *bytes = kPageBytes;
  return 0;
}

std::int32_t cuMemCreate(PageHandle* handle,
                         std::size_t size_bytes,
                         const CUmemAllocationProp* properties,
                         unsigned long long) {
  return driver_call(__func__, [&](Call& call) -> Status {
    Device* device = nullptr;
    if (properties->location.type == kLocationDevice) {
      if (!call.machine.is_ordinal(properties->location.id)) return Status::kInvalidDevice;
      device = &call.machine.visible(properties->location.id);
      device->activate();
    }
    return call.machine.virtual_memory().create(device, *properties, size_bytes, handle);
  });
}

std::int32_t cuMemRelease(PageHandle handle) {
  return driver_call(__func__,
                     [&](Call& call) { return call.machine.virtual_memory().release(handle); });
}

std::int32_t cuMemRetainAllocationHandle(PageHandle* handle, void* address) {
  return driver_call(__func__, [&](Call& call) {
    return call.machine.virtual_memory().retain(number_of(address), handle);
  });
}

std::int32_t cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                    PageHandle handle) {
  return driver_call(__func__, [&](Call& call) {
    return call.machine.virtual_memory().properties(handle, properties);
  });
}

std::int32_t cuMemAddressReserve(std::uint64_t* address,
                                 std::size_t size_bytes,
                                 std::size_t alignment_bytes,
                                 std::uint64_t,
                                 unsigned long long) {
  return driver_call(__func__, [&](Call& call) {
    return call.machine.virtual_memory().reserve(
        call.device(), {size_bytes, alignment_bytes}, address);
  });
}

std::int32_t cuMemAddressFree(std::uint64_t address, std::size_t size_bytes) {
  return driver_call(__func__, [&](Call& call) {
    return call.machine.virtual_memory().free_addresses({address, size_bytes});
  });
}

std::int32_t cuMemMap(std::uint64_t address,
                      std::size_t size_bytes,
                      std::size_t offset_bytes,
                      PageHandle handle,
                      unsigned long long) {
  return driver_call(__func__, [&](Call& call) {
    return call.machine.virtual_memory().map({{address, size_bytes}, offset_bytes, handle});
  });
}

std::int32_t cuMemUnmap(std::uint64_t address, std::size_t size_bytes) {
  return driver_call(__func__, [&](Call& call) {
    return call.machine.virtual_memory().unmap({address, size_bytes});
  });
}

std::int32_t cuMemSetAccess(std::uint64_t address,
                            std::size_t size_bytes,
                            const CUmemAccessDesc*,
                            std::size_t) {
  return driver_call(__func__, [&](Call& call) {
    return call.machine.virtual_memory().set_access({address, size_bytes});
  });
}

std::int32_t cuMemGetAddressRange_v2(std::uint64_t* begin,
                                     std::size_t* size_bytes,
                                     std::uint64_t address) {
  return driver_call(__func__, [&](Call& call) -> Status {
    const MemoryEntry* const entry = call.machine.memory().find(address);
    if (entry == nullptr) return Status::kNotFound;
    if (begin != nullptr) *begin = entry->range.begin;
    if (size_bytes != nullptr) *size_bytes = entry->range.size_bytes;
    return Status::kSuccess;
  });
}

std::int32_t cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  return driver_call(__func__, [&](Call& call) -> Status {
    const Device& device = call.device();
    *free_bytes = device.free_bytes();
    *total_bytes = device.total_bytes();
    return Status::kSuccess;
  });
}

std::int32_t cuMemAlloc_v2(std::uint64_t* address, std::size_t size_bytes) {
  return driver_call(__func__, [&](Call& call) -> Status {
    if (const Status status = call.check_unsafe(); status != Status::kSuccess) return status;
    if (size_bytes == 0) return Status::kInvalidValue;
    Device& device = call.device();
    MemoryEntry wanted;
    wanted.range.size_bytes = size_bytes;
    wanted.device = device.index();
    return call.machine.allocations().allocate(device, wanted, address);
  });
}

std::int32_t cuMemFree_v2(std::uint64_t address) {
  return driver_call(__func__, [&](Call& call) -> Status {
    if (const Status status = call.check_unsafe(); status != Status::kSuccess) return status;
    const MemoryEntry* const entry = call.machine.memory().find_begin(address);
    if (entry == nullptr || entry->kind != MemoryKind::kDevice) return Status::kInvalidValue;
    return call.machine.allocations().release(call.machine.device(entry->device), *entry);
  });
}

std::int32_t cuPointerGetAttribute(void* out, std::int32_t attribute, std::uint64_t pointer) {
  return driver_call(__func__, [&](Call& call) -> Status {
    const MemoryEntry* const entry = call.machine.memory().find(pointer);
    if (entry == nullptr) return Status::kInvalidValue;
    return pointer_attribute(call, *entry, static_cast<PointerAttribute>(attribute), pointer, out);
  });
}

}  // extern "C"
