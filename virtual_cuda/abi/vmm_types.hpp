// SPDX-License-Identifier: Apache-2.0
// The structs of the driver's virtual memory calls, laid out as in NVIDIA's cuda.h. Declared here
// so that nothing needs a CUDA toolkit; tests/virtual_cuda/abi_test.cpp compares them where there
// is one.
#pragma once

#include <cstdint>

namespace fragscope::virtual_cuda {

/// CU_MEM_LOCATION_TYPE_DEVICE; every other type is memory of the host here.
inline constexpr std::int32_t kLocationDevice = 1;

struct CUmemLocation {
  std::int32_t type;
  std::int32_t id;
};

struct CUmemAllocationProp {
  std::int32_t type;
  std::int32_t requested_handle_types;
  CUmemLocation location;
  void* win32_meta_data;
  std::uint8_t compression_type;
  std::uint8_t gpu_direct_rdma_capable;
  std::uint16_t usage;
  std::uint8_t reserved[4];
};
static_assert(sizeof(CUmemAllocationProp) == 32);

struct CUmemAccessDesc {
  CUmemLocation location;
  std::int32_t flags;
};
static_assert(sizeof(CUmemAccessDesc) == 12);

}  // namespace fragscope::virtual_cuda
