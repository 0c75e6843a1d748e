// SPDX-License-Identifier: Apache-2.0
// Handles and structs of the CUDA runtime, laid out as in NVIDIA's headers (CUDA 12 and 13 agree on
// what is declared here). Declared here so that nothing needs a CUDA toolkit;
// tests/virtual_cuda/abi_test.cpp compares them where there is one. cudaDeviceProp, on which they
// do not agree, has its own header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fragscope::virtual_cuda {

// Handles are opaque to programs. Here they are the addresses of our objects, which are looked up
// before use.
using StreamHandle = void*;
using EventHandle = void*;
using GraphHandle = void*;
using NodeHandle = void*;
using ExecutableHandle = void*;
using UserObjectHandle = void*;
using PoolHandle = void*;

using HostFunction = void (*)(void*);
using StreamCallback = void (*)(StreamHandle, std::int32_t, void*);

struct Dim3 {
  unsigned x, y, z;
};

/// In CUDA 13 eight reserved words follow, in CUDA 12 whatever the caller keeps there.
struct PointerAttributes {
  std::int32_t type;
  std::int32_t device;
  void* device_pointer;
  void* host_pointer;
};

// cudaMemoryType.
inline constexpr std::int32_t kMemoryUnregistered = 0;
inline constexpr std::int32_t kMemoryHost = 1;
inline constexpr std::int32_t kMemoryDevice = 2;
inline constexpr std::int32_t kMemoryManaged = 3;

struct FunctionAttributes {
  std::size_t shared_bytes;
  std::size_t constant_bytes;
  std::size_t local_bytes;
  std::int32_t max_threads_per_block;
  std::int32_t register_count;
  std::int32_t ptx_version;
  std::int32_t binary_version;
  std::int32_t cache_mode_ca;
  std::int32_t max_dynamic_shared_bytes;
  std::int32_t preferred_carveout;
  std::int32_t cluster_figures[6];
  std::int32_t reserved[16];
};

struct LaunchConfig {
  Dim3 grid;
  Dim3 block;
  std::size_t shared_bytes;
  StreamHandle stream;
  void* attributes;
  unsigned attribute_count;
};

struct EdgeData {
  std::uint8_t from_port;
  std::uint8_t to_port;
  std::uint8_t type;
  std::uint8_t reserved[5];
};

/// The head of cudaGraphNodeParams; what follows depends on the type.
struct NodeParams {
  std::int32_t type;
  std::int32_t reserved[3];
};

struct IpcHandle {
  char bytes[64];
};

}  // namespace fragscope::virtual_cuda
