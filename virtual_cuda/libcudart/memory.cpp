// SPDX-License-Identifier: Apache-2.0
// The runtime's calls about memory: to get it, give it back, ask about it, copy and fill.
#include "virtual_cuda/core/call.hpp"
#include "virtual_cuda/memory/host_pages.hpp"

#include <algorithm>
#include <cstring>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

Status allocate(Call& call, MemoryKind kind, std::size_t size_bytes, void** pointer) {
  *pointer = nullptr;
  if (const Status status = call.check_unsafe(); status != Status::kSuccess) return status;
  Device& device = call.device();
  if (size_bytes == 0) return Status::kSuccess;
  MemoryEntry wanted;
  wanted.range.size_bytes = size_bytes;
  wanted.kind = kind;
  wanted.device = device.index();
  std::uint64_t begin = 0;
  const Status status = call.machine.allocations().allocate(device, wanted, &begin);
  if (status == Status::kSuccess) *pointer = handle_of(begin);
  return status;
}

Status release(Call& call, void* pointer) {
  if (const Status status = call.check_unsafe(); status != Status::kSuccess) return status;
  static_cast<void>(call.device());
  if (pointer == nullptr) return Status::kSuccess;
  const MemoryEntry* const entry = call.machine.memory().find_begin(number_of(pointer));
  if (entry == nullptr) return Status::kInvalidValue;
  if (entry->kind == MemoryKind::kPool) {
    return call.machine.pool(entry->device).release(entry->range.begin);
  }
  if (entry->kind != MemoryKind::kDevice && entry->kind != MemoryKind::kManaged) {
    return Status::kInvalidValue;
  }
  Device& device = call.machine.device(entry->device);
  // cudaFree waits for everything on the device.
  const Status status =
      call.machine.timeline().synchronize_device(device.index(), call.thread.capture);
  if (status != Status::kSuccess) return status;
  return call.machine.allocations().release(device, *entry);
}

// Whether a copy may touch these bytes: inside a window of ours, all of them must be allocated.
// Other addresses are the program's own.
bool may_touch(Call& call, const void* pointer, std::uint64_t size_bytes) {
  const AddressRange range{number_of(pointer), size_bytes};
  const bool ours = range.begin >= kFirstWindow && range.begin < kPinnedWindow.end();
  return !ours || call.machine.memory().covers(range);
}

// A copy of `height` rows; a plain copy is one row.
struct Copy {
  void* destination = nullptr;
  const void* source = nullptr;
  std::size_t width_bytes = 0;
  std::size_t height = 1;
  std::size_t destination_pitch_bytes = 0;
  std::size_t source_pitch_bytes = 0;
};

Status enqueue_copy(Call& call, const Copy& copy, StreamHandle stream) {
  if (copy.width_bytes == 0 || copy.height == 0) return Status::kSuccess;
  const std::uint64_t rows = copy.height - 1;
  if (!may_touch(call, copy.source, rows * copy.source_pitch_bytes + copy.width_bytes) ||
      !may_touch(call, copy.destination, rows * copy.destination_pitch_bytes + copy.width_bytes)) {
    return Status::kInvalidValue;
  }
  Work work{.kind = NodeKind::kMemcpy};
  work.action = [copy] {
    for (std::size_t row = 0; row < copy.height; ++row) {
      host_pages::copy(static_cast<char*>(copy.destination) + row * copy.destination_pitch_bytes,
                       static_cast<const char*>(copy.source) + row * copy.source_pitch_bytes,
                       copy.width_bytes);
    }
  };
  return call.enqueue(stream, std::move(work));
}

Status enqueue_fill(
    Call& call, void* destination, int value, std::size_t size_bytes, StreamHandle stream) {
  if (size_bytes == 0) return Status::kSuccess;
  if (!may_touch(call, destination, size_bytes)) return Status::kInvalidValue;
  Work work{.kind = NodeKind::kMemset};
  work.action = [=] {
    host_pages::fill(destination, static_cast<std::uint8_t>(value), size_bytes);
  };
  return call.enqueue(stream, std::move(work));
}

// What a call without "Async" in its name does after its work is given to the default stream.
Status wait_for_default_stream(Call& call, Status status) {
  if (status != Status::kSuccess) return status;
  return call.machine.timeline().synchronize_stream(*call.stream(nullptr), call.thread.capture);
}

std::int32_t memory_type(MemoryKind kind) {
  if (kind == MemoryKind::kManaged) return kMemoryManaged;
  return is_device_memory(kind) ? kMemoryDevice : kMemoryHost;
}

}  // namespace

extern "C" {

std::int32_t cudaMalloc(void** pointer, std::size_t size_bytes) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return allocate(call, MemoryKind::kDevice, size_bytes, pointer);
  });
}

std::int32_t cudaMallocManaged(void** pointer, std::size_t size_bytes, unsigned) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return allocate(call, MemoryKind::kManaged, size_bytes, pointer);
  });
}

std::int32_t cudaFree(void* pointer) {
  return runtime_call(__func__, [&](Call& call) -> Status { return release(call, pointer); });
}

std::int32_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    const Device& device = call.device();
    *free_bytes = device.free_bytes();
    *total_bytes = device.total_bytes();
    return Status::kSuccess;
  });
}

std::int32_t cudaHostAlloc(void** pointer, std::size_t size_bytes, unsigned flags) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    *pointer = nullptr;
    if (const Status status = call.check_unsafe(); status != Status::kSuccess) return status;
    MemoryEntry wanted;
    wanted.device = call.device().index();
    if (size_bytes == 0) return Status::kSuccess;
    wanted.range.size_bytes = size_bytes;
    wanted.flags = flags;
    std::uint64_t begin = 0;
    const Status status = call.machine.allocations().allocate_pinned(wanted, &begin);
    if (status == Status::kSuccess) *pointer = handle_of(begin);
    return status;
  });
}

std::int32_t cudaMallocHost(void** pointer, std::size_t size_bytes) {
  return cudaHostAlloc(pointer, size_bytes, 0);
}

std::int32_t cudaFreeHost(void* pointer) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (const Status status = call.check_unsafe(); status != Status::kSuccess) return status;
    if (pointer == nullptr) return Status::kSuccess;
    return call.machine.allocations().release_pinned(number_of(pointer));
  });
}

std::int32_t cudaHostRegister(void* pointer, std::size_t size_bytes, unsigned flags) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (const Status status = call.check_unsafe(); status != Status::kSuccess) return status;
    MemoryEntry entry;
    entry.range = {number_of(pointer), size_bytes};
    entry.device = call.device().index();
    entry.flags = flags;
    return call.machine.allocations().register_host(entry);
  });
}

std::int32_t cudaHostUnregister(void* pointer) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return call.machine.allocations().unregister_host(number_of(pointer));
  });
}

std::int32_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (call.machine.memory().find(number_of(pointer)) == nullptr) return Status::kInvalidValue;
    *device_pointer = pointer;
    return Status::kSuccess;
  });
}

std::int32_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    const MemoryEntry* const entry = call.machine.memory().find(number_of(pointer));
    if (entry == nullptr || is_device_memory(entry->kind)) return Status::kInvalidValue;
    *flags = entry->flags;
    return Status::kSuccess;
  });
}

std::int32_t cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    void* const address =
        const_cast<void*>(pointer);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    *attributes = {};
    const MemoryEntry* const entry = call.machine.memory().find(number_of(pointer));
    if (entry == nullptr) {
      attributes->type = kMemoryUnregistered;
      attributes->device = -2;  // cudaInvalidDeviceId.
      attributes->host_pointer = address;
      return Status::kSuccess;
    }
    attributes->type = memory_type(entry->kind);
    attributes->device = call.machine.ordinal_of(entry->device);
    attributes->device_pointer = address;
    if (attributes->type != kMemoryDevice) attributes->host_pointer = address;
    return Status::kSuccess;
  });
}

std::int32_t cudaMemcpyAsync(void* destination,
                             const void* source,
                             std::size_t size_bytes,
                             std::int32_t,
                             StreamHandle stream) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return enqueue_copy(call, {destination, source, size_bytes}, stream);
  });
}

std::int32_t cudaMemcpy(void* destination,
                        const void* source,
                        std::size_t size_bytes,
                        std::int32_t) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (const Status status = call.check_unsafe(); status != Status::kSuccess) return status;
    return wait_for_default_stream(call,
                                   enqueue_copy(call, {destination, source, size_bytes}, nullptr));
  });
}

std::int32_t cudaMemcpyPeerAsync(
    void* destination, int, const void* source, int, std::size_t size_bytes, StreamHandle stream) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return enqueue_copy(call, {destination, source, size_bytes}, stream);
  });
}

std::int32_t cudaMemcpy2DAsync(void* destination,
                               std::size_t destination_pitch_bytes,
                               const void* source,
                               std::size_t source_pitch_bytes,
                               std::size_t width_bytes,
                               std::size_t height,
                               std::int32_t,
                               StreamHandle stream) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (width_bytes > destination_pitch_bytes || width_bytes > source_pitch_bytes) {
      return Status::kInvalidValue;
    }
    return enqueue_copy(
        call,
        {destination, source, width_bytes, height, destination_pitch_bytes, source_pitch_bytes},
        stream);
  });
}

std::int32_t cudaMemsetAsync(void* destination,
                             int value,
                             std::size_t size_bytes,
                             StreamHandle stream) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return enqueue_fill(call, destination, value, size_bytes, stream);
  });
}

std::int32_t cudaMemset(void* destination, int value, std::size_t size_bytes) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (const Status status = call.check_unsafe(); status != Status::kSuccess) return status;
    return wait_for_default_stream(call,
                                   enqueue_fill(call, destination, value, size_bytes, nullptr));
  });
}

// Memory cannot be shared with other processes.
std::int32_t cudaIpcGetMemHandle(IpcHandle*, void*) {
  return runtime_call(__func__, [](Call&) { return Status::kNotSupported; });
}
std::int32_t cudaIpcOpenMemHandle(void**, IpcHandle, unsigned) {
  return runtime_call(__func__, [](Call&) { return Status::kNotSupported; });
}
std::int32_t cudaIpcCloseMemHandle(void*) {
  return runtime_call(__func__, [](Call&) { return Status::kNotSupported; });
}
std::int32_t cudaIpcGetEventHandle(IpcHandle*, EventHandle) {
  return runtime_call(__func__, [](Call&) { return Status::kNotSupported; });
}
std::int32_t cudaIpcOpenEventHandle(EventHandle*, IpcHandle) {
  return runtime_call(__func__, [](Call&) { return Status::kNotSupported; });
}

}  // extern "C"
