// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory: cudaMallocAsync and the default pool of each device.
#include "virtual_cuda/core/call.hpp"
#include "virtual_cuda/core/unimplemented.hpp"

#include <cstring>
#include <string>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

// cudaMemPoolAttr.
enum class PoolAttribute : std::int32_t {
  kReuseFollowEvents = 1,
  kReuseOpportunistic = 2,
  kReuseInternal = 3,
  kReleaseThreshold = 4,
  kReservedCurrent = 5,
  kReservedHigh = 6,
  kUsedCurrent = 7,
  kUsedHigh = 8,
};

// A pool's handle is that of its device, set apart from addresses and other handles.
constexpr std::uint64_t kPoolHandles = 0x6500'0000'0000;

PoolHandle handle_of_pool(const Device& device) {
  return handle_of(kPoolHandles + 256 * static_cast<std::uint64_t>(device.index() + 1));
}

AsyncPool* find_pool(Call& call, PoolHandle handle) {
  for (const auto& device : call.machine.devices()) {
    if (handle_of_pool(*device) == handle) return &call.machine.pool(device->index());
  }
  return nullptr;
}

Status allocate(AsyncPool& pool, std::size_t size_bytes, void** pointer) {
  *pointer = nullptr;
  if (size_bytes == 0) return Status::kSuccess;
  std::uint64_t begin = 0;
  const Status status = pool.allocate(size_bytes, &begin);
  if (status != Status::kSuccess) return status;
  *pointer = handle_of(begin);
  return Status::kSuccess;
}

Status set_attribute(AsyncPool& pool, PoolAttribute attribute, const void* value) {
  std::uint64_t number = 0;
  switch (attribute) {
    case PoolAttribute::kReuseFollowEvents:
    case PoolAttribute::kReuseOpportunistic:
    case PoolAttribute::kReuseInternal:
      return Status::kSuccess;  // Reuse here waits for nobody, whatever is allowed.
    case PoolAttribute::kReleaseThreshold:
      std::memcpy(&number, value, sizeof(number));
      pool.set_threshold_bytes(number);
      return Status::kSuccess;
    case PoolAttribute::kReservedHigh:
      pool.reserved().high = pool.reserved().current;
      return Status::kSuccess;
    case PoolAttribute::kUsedHigh:
      pool.used().high = pool.used().current;
      return Status::kSuccess;
    default:
      return Status::kInvalidValue;
  }
}

Status get_attribute(AsyncPool& pool, PoolAttribute attribute, void* value) {
  std::uint64_t number = 0;
  switch (attribute) {
    case PoolAttribute::kReuseFollowEvents:
    case PoolAttribute::kReuseOpportunistic:
    case PoolAttribute::kReuseInternal: {
      const int enabled = 1;
      std::memcpy(value, &enabled, sizeof(enabled));
      return Status::kSuccess;
    }
    case PoolAttribute::kReleaseThreshold:
      number = pool.threshold_bytes();
      break;
    case PoolAttribute::kReservedCurrent:
      number = pool.reserved().current;
      break;
    case PoolAttribute::kReservedHigh:
      number = pool.reserved().high;
      break;
    case PoolAttribute::kUsedCurrent:
      number = pool.used().current;
      break;
    case PoolAttribute::kUsedHigh:
      number = pool.used().high;
      break;
    default:
      return Status::kInvalidValue;
  }
  std::memcpy(value, &number, sizeof(number));
  return Status::kSuccess;
}

}  // namespace

extern "C" {

std::int32_t cudaMallocAsync(void** pointer, std::size_t size_bytes, StreamHandle stream) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    const Stream* const found = call.stream(stream);
    if (found == nullptr) return Status::kInvalidHandle;
    AsyncPool& pool = call.machine.pool(found->traits.device);
    const Status status = allocate(pool, size_bytes, pointer);
    if (status != Status::kSuccess) return status;
    return call.enqueue(stream, {.kind = NodeKind::kMemAlloc});
  });
}

std::int32_t cudaMallocFromPoolAsync(void** pointer,
                                     std::size_t size_bytes,
                                     PoolHandle handle,
                                     StreamHandle stream) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    AsyncPool* const pool = find_pool(call, handle);
    if (pool == nullptr) return Status::kInvalidValue;
    const Status status = allocate(*pool, size_bytes, pointer);
    if (status != Status::kSuccess) return status;
    return call.enqueue(stream, {.kind = NodeKind::kMemAlloc});
  });
}

std::int32_t cudaFreeAsync(void* pointer, StreamHandle stream) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (pointer == nullptr) return Status::kSuccess;
    const MemoryEntry* const entry = call.machine.memory().find_begin(number_of(pointer));
    if (entry == nullptr) return Status::kInvalidValue;
    const Status queued = call.enqueue(stream, {.kind = NodeKind::kMemFree});
    if (queued != Status::kSuccess) return queued;
    if (entry->kind == MemoryKind::kPool) {
      return call.machine.pool(entry->device).release(entry->range.begin);
    }
    if (entry->kind != MemoryKind::kDevice) return Status::kInvalidValue;
    return call.machine.allocations().release(call.machine.device(entry->device), *entry);
  });
}

std::int32_t cudaDeviceGetDefaultMemPool(PoolHandle* pool, int ordinal) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (!call.machine.is_ordinal(ordinal)) return Status::kInvalidDevice;
    *pool = handle_of_pool(call.machine.visible(ordinal));
    return Status::kSuccess;
  });
}

std::int32_t cudaDeviceGetMemPool(PoolHandle* pool, int ordinal) {
  return cudaDeviceGetDefaultMemPool(pool, ordinal);
}

std::int32_t cudaMemPoolSetAttribute(PoolHandle handle, std::int32_t attribute, void* value) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    AsyncPool* const pool = find_pool(call, handle);
    if (pool == nullptr) return Status::kInvalidValue;
    return set_attribute(*pool, static_cast<PoolAttribute>(attribute), value);
  });
}

std::int32_t cudaMemPoolGetAttribute(PoolHandle handle, std::int32_t attribute, void* value) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    AsyncPool* const pool = find_pool(call, handle);
    if (pool == nullptr) return Status::kInvalidValue;
    return get_attribute(*pool, static_cast<PoolAttribute>(attribute), value);
  });
}

std::int32_t cudaMemPoolTrimTo(PoolHandle handle, std::size_t keep_bytes) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    AsyncPool* const pool = find_pool(call, handle);
    if (pool == nullptr) return Status::kInvalidValue;
    pool->trim(keep_bytes);
    return Status::kSuccess;
  });
}

// Every device may read every pool.
std::int32_t cudaMemPoolSetAccess(PoolHandle handle, const void*, std::size_t) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return find_pool(call, handle) == nullptr ? Status::kInvalidValue : Status::kSuccess;
  });
}

// What graphs keep for their own allocations: nothing, since those count as any others.
std::int32_t cudaDeviceGetGraphMemAttribute(int ordinal, std::int32_t, void* value) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (!call.machine.is_ordinal(ordinal)) return Status::kInvalidDevice;
    std::memset(value, 0, sizeof(std::uint64_t));
    return Status::kSuccess;
  });
}

std::int32_t cudaDeviceSetGraphMemAttribute(int ordinal, std::int32_t, void*) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return call.machine.is_ordinal(ordinal) ? Status::kSuccess : Status::kInvalidDevice;
  });
}

}  // extern "C"
