// SPDX-License-Identifier: Apache-2.0
// The CUDA driver's functions that the allocator needs, found at run time in libcuda.so.1, so that
// one library serves every CUDA version and is built without any. Types and values are those of
// NVIDIA's cuda.h, which have not changed since CUDA 11.
#pragma once

#include "trace/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace fragscope::driver {

using Status = std::int32_t;  ///< CUresult
inline constexpr Status kSuccess = 0;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNotReady = 600;

using DevicePointer = std::uint64_t;     ///< CUdeviceptr
using DeviceHandle = std::int32_t;       ///< CUdevice: the ordinal among the visible devices
using ContextHandle = void*;             ///< CUcontext
using StreamHandle = void*;              ///< CUstream, which is cudaStream_t
using EventHandle = void*;               ///< CUevent, which is cudaEvent_t
using NodeHandle = void*;                ///< CUgraphNode
using PagesHandle = unsigned long long;  ///< CUmemGenericAllocationHandle

struct Location {
  std::int32_t type = 1;  ///< CU_MEM_LOCATION_TYPE_DEVICE
  std::int32_t ordinal = 0;
};

/// CUmemAllocationProp
struct PageProperties {
  std::int32_t type = 1;  ///< CU_MEM_ALLOCATION_TYPE_PINNED
  std::int32_t requested_handle_types = 0;
  Location location;
  void* win32_meta_data = nullptr;
  std::uint8_t compression_type = 0;
  std::uint8_t gpu_direct_rdma_capable = 0;
  std::uint16_t usage = 0;
  std::uint8_t reserved[4] = {};
};
static_assert(sizeof(PageProperties) == 32);

/// CUmemAccessDesc
struct PageAccess {
  Location location;
  std::int32_t flags = 3;  ///< CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};
static_assert(sizeof(PageAccess) == 12);

struct Api {
  Status (*init)(unsigned flags) = nullptr;
  Status (*driver_get_version)(int* version) = nullptr;
  Status (*get_error_name)(Status status, const char** name) = nullptr;

  Status (*device_get_count)(int* count) = nullptr;
  Status (*device_get_name)(char* name, int bytes, DeviceHandle device) = nullptr;
  Status (*device_get_uuid)(char* uuid, DeviceHandle device) = nullptr;
  Status (*device_total_mem)(std::size_t* bytes, DeviceHandle device) = nullptr;
  Status (*device_get_attribute)(int* value, std::int32_t attribute, DeviceHandle) = nullptr;
  Status (*device_primary_ctx_retain)(ContextHandle* context, DeviceHandle device) = nullptr;
  Status (*ctx_get_current)(ContextHandle* context) = nullptr;
  Status (*ctx_set_current)(ContextHandle context) = nullptr;
  Status (*ctx_synchronize)() = nullptr;

  Status (*mem_get_info)(std::size_t* free, std::size_t* total) = nullptr;
  Status (*mem_alloc)(DevicePointer* pointer, std::size_t bytes) = nullptr;
  Status (*mem_free)(DevicePointer pointer) = nullptr;
  Status (*mem_address_reserve)(DevicePointer* pointer,
                                std::size_t bytes,
                                std::size_t alignment,
                                DevicePointer wanted,
                                unsigned long long flags) = nullptr;
  Status (*mem_address_free)(DevicePointer pointer, std::size_t bytes) = nullptr;
  Status (*mem_create)(PagesHandle* pages,
                       std::size_t bytes,
                       const PageProperties* properties,
                       unsigned long long flags) = nullptr;
  Status (*mem_release)(PagesHandle pages) = nullptr;
  Status (*mem_map)(DevicePointer pointer,
                    std::size_t bytes,
                    std::size_t offset,
                    PagesHandle pages,
                    unsigned long long flags) = nullptr;
  Status (*mem_unmap)(DevicePointer pointer, std::size_t bytes) = nullptr;
  Status (*mem_set_access)(DevicePointer pointer,
                           std::size_t bytes,
                           const PageAccess* access,
                           std::size_t count) = nullptr;

  Status (*thread_exchange_stream_capture_mode)(std::int32_t* mode) = nullptr;
  Status (*stream_is_capturing)(StreamHandle stream, std::int32_t* status) = nullptr;
  /// `nodes`: what the next work on the stream will depend on; the driver's own memory.
  Status (*stream_get_capture_info)(StreamHandle stream,
                                    std::int32_t* status,
                                    unsigned long long* id,
                                    void** graph,
                                    const NodeHandle** nodes,
                                    std::size_t* count) = nullptr;
  /// Without `nodes` only how many there are.
  Status (*graph_node_get_dependencies)(NodeHandle node,
                                        NodeHandle* nodes,
                                        std::size_t* count) = nullptr;
  Status (*event_create)(EventHandle* event, unsigned flags) = nullptr;
  Status (*event_destroy)(EventHandle event) = nullptr;
  Status (*event_record)(EventHandle event, StreamHandle stream) = nullptr;
  Status (*event_query)(EventHandle event) = nullptr;
  Status (*event_synchronize)(EventHandle event) = nullptr;

  /// "CUDA_ERROR_OUT_OF_MEMORY", or the number where the driver knows no name.
  [[nodiscard]] std::string name_of(Status status) const;
};

/// The driver of this machine, looked for once; it stays loaded. Fails: there is none, or it lacks
/// a function, which the message names. Thread-safe.
[[nodiscard]] const Result<Api>& api();

}  // namespace fragscope::driver
