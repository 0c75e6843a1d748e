// SPDX-License-Identifier: Apache-2.0
// Our declarations against NVIDIA's headers, where a build has them. Texts against what programs
// print.
#include "virtual_cuda/abi/device_prop.hpp"
#include "virtual_cuda/abi/runtime_types.hpp"
#include "virtual_cuda/abi/status.hpp"
#include "virtual_cuda/abi/vmm_types.hpp"

#if __has_include(<cuda.h>) && __has_include(<cuda_runtime_api.h>)
#include <cuda.h>
#include <cuda_runtime_api.h>
#define FRAGSCOPE_HAVE_CUDA_HEADERS
#endif

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

namespace fragscope::virtual_cuda {
namespace {

// The numbers that the two layouts are known by: what sizeof says under CUDA 12.4 and 13.
static_assert(sizeof(DeviceProp12) == 1032);
static_assert(sizeof(DeviceProp13) == 1008);
static_assert(offsetof(DeviceProp12, major) == 360);
static_assert(offsetof(DeviceProp13, major) == 360);
static_assert(offsetof(DeviceProp12, multiprocessor_count) == 388);
static_assert(offsetof(DeviceProp13, multiprocessor_count) == 384);

TEST(StatusText, IsKnownForWhatPyTorchLooksFor) {
  EXPECT_STREQ(find_status_text(2)->description, "out of memory");
  EXPECT_STREQ(find_status_text(2)->runtime_name, "cudaErrorMemoryAllocation");
  EXPECT_STREQ(find_status_text(600)->driver_name, "CUDA_ERROR_NOT_READY");
  EXPECT_EQ(find_status_text(12345), nullptr);
}

#ifdef FRAGSCOPE_HAVE_CUDA_HEADERS

using Prop = std::conditional_t<CUDART_VERSION >= 13000, DeviceProp13, DeviceProp12>;

#define FRAGSCOPE_EXPECT_SAME_PLACE(ours, theirs) \
  EXPECT_EQ(offsetof(Prop, ours), offsetof(cudaDeviceProp, theirs))

TEST(Layout, OfDevicePropertiesIsNvidias) {
  EXPECT_EQ(sizeof(Prop), sizeof(cudaDeviceProp));
  FRAGSCOPE_EXPECT_SAME_PLACE(head.total_global_bytes, totalGlobalMem);
  FRAGSCOPE_EXPECT_SAME_PLACE(max_grid_size, maxGridSize);
  FRAGSCOPE_EXPECT_SAME_PLACE(major, major);
  FRAGSCOPE_EXPECT_SAME_PLACE(multiprocessor_count, multiProcessorCount);
  FRAGSCOPE_EXPECT_SAME_PLACE(texture_and_surface_limits, maxTexture1D);
  FRAGSCOPE_EXPECT_SAME_PLACE(surface_alignment, surfaceAlignment);
  FRAGSCOPE_EXPECT_SAME_PLACE(unified_addressing, unifiedAddressing);
  FRAGSCOPE_EXPECT_SAME_PLACE(l2_cache_bytes, l2CacheSize);
  FRAGSCOPE_EXPECT_SAME_PLACE(max_threads_per_multiprocessor, maxThreadsPerMultiProcessor);
  FRAGSCOPE_EXPECT_SAME_PLACE(cooperative_launch, cooperativeLaunch);
  FRAGSCOPE_EXPECT_SAME_PLACE(tail.shared_bytes_per_block_optin, sharedMemPerBlockOptin);
  FRAGSCOPE_EXPECT_SAME_PLACE(tail.unified_function_pointers, unifiedFunctionPointers);
}

TEST(Layout, OfSmallStructsIsNvidias) {
  EXPECT_EQ(sizeof(FunctionAttributes), sizeof(cudaFuncAttributes));
  EXPECT_EQ(offsetof(FunctionAttributes, ptx_version), offsetof(cudaFuncAttributes, ptxVersion));
  EXPECT_EQ(sizeof(LaunchConfig), sizeof(cudaLaunchConfig_t));
  EXPECT_EQ(offsetof(LaunchConfig, stream), offsetof(cudaLaunchConfig_t, stream));
  EXPECT_EQ(offsetof(PointerAttributes, host_pointer),
            offsetof(cudaPointerAttributes, hostPointer));
  EXPECT_EQ(sizeof(EdgeData), sizeof(cudaGraphEdgeData));
  EXPECT_EQ(sizeof(IpcHandle), sizeof(cudaIpcMemHandle_t));
  EXPECT_EQ(sizeof(CUmemAllocationProp), sizeof(::CUmemAllocationProp));
  EXPECT_EQ(offsetof(CUmemAllocationProp, location), offsetof(::CUmemAllocationProp, location));
  EXPECT_EQ(sizeof(CUmemAccessDesc), sizeof(::CUmemAccessDesc));
  EXPECT_EQ(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
}

#endif

}  // namespace
}  // namespace fragscope::virtual_cuda
