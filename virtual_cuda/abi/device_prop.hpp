// SPDX-License-Identifier: Apache-2.0
// Both layouts of cudaDeviceProp: that of CUDA 12 (cudaGetDeviceProperties_v2) and that of CUDA 13,
// which dropped eight fields from the middle. Filled by libcudart; tests/virtual_cuda/abi_test.cpp
// compares them with NVIDIA's headers where those are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fragscope::virtual_cuda {

/// What both layouts have at the end of a device's figures.
struct DevicePropTail {
  std::size_t shared_bytes_per_block_optin;
  int pageable_memory_access_uses_host_page_tables;
  int direct_managed_access_from_host;
  int max_blocks_per_multiprocessor;
  int access_policy_max_window_bytes;
  std::size_t reserved_shared_bytes_per_block;
  int host_register_supported;
  int sparse_array_supported;
  int host_register_read_only_supported;
  int timeline_semaphore_interop_supported;
  int memory_pools_supported;
  int gpu_direct_rdma_supported;
  unsigned gpu_direct_rdma_flush_writes_options;
  int gpu_direct_rdma_writes_ordering;
  unsigned memory_pool_handle_types;
  int deferred_mapping_array_supported;
  int ipc_event_supported;
  int cluster_launch;
  int unified_function_pointers;
  int later[63];  ///< Reserved in CUDA 12; NUMA and PCI numbers in CUDA 13, 0 here.
};

/// The head of both layouts.
struct DevicePropHead {
  char name[256];
  unsigned char uuid[16];
  char luid[8];
  unsigned luid_device_node_mask;
  std::size_t total_global_bytes;
  std::size_t shared_bytes_per_block;
  int registers_per_block;
  int warp_size;
  std::size_t pitch_bytes;
  int max_threads_per_block;
  int max_threads_dim[3];
};

struct DeviceProp13 {
  DevicePropHead head;
  int max_grid_size[3];
  std::size_t total_constant_bytes;
  int major;
  int minor;
  std::size_t texture_alignment;
  std::size_t texture_pitch_alignment;
  int multiprocessor_count;
  int integrated;
  int can_map_host_memory;
  int texture_and_surface_limits[39];
  std::size_t surface_alignment;
  int concurrent_kernels;
  int ecc_enabled;
  int pci_bus_id;
  int pci_device_id;
  int pci_domain_id;
  int tcc_driver;
  int async_engine_count;
  int unified_addressing;
  int memory_bus_width;
  int l2_cache_bytes;
  int persisting_l2_cache_max_bytes;
  int max_threads_per_multiprocessor;
  int stream_priorities_supported;
  int global_l1_cache_supported;
  int local_l1_cache_supported;
  std::size_t shared_bytes_per_multiprocessor;
  int registers_per_multiprocessor;
  int managed_memory;
  int is_multi_gpu_board;
  int multi_gpu_board_group_id;
  int host_native_atomic_supported;
  int pageable_memory_access;
  int concurrent_managed_access;
  int compute_preemption_supported;
  int can_use_host_pointer_for_registered_memory;
  int cooperative_launch;
  DevicePropTail tail;
};

struct DeviceProp12 {
  DevicePropHead head;
  int max_grid_size[3];
  int clock_khz;
  std::size_t total_constant_bytes;
  int major;
  int minor;
  std::size_t texture_alignment;
  std::size_t texture_pitch_alignment;
  int device_overlap;
  int multiprocessor_count;
  int kernel_timeout_enabled;
  int integrated;
  int can_map_host_memory;
  int compute_mode;
  int texture_and_surface_limits[40];
  std::size_t surface_alignment;
  int concurrent_kernels;
  int ecc_enabled;
  int pci_bus_id;
  int pci_device_id;
  int pci_domain_id;
  int tcc_driver;
  int async_engine_count;
  int unified_addressing;
  int memory_clock_khz;
  int memory_bus_width;
  int l2_cache_bytes;
  int persisting_l2_cache_max_bytes;
  int max_threads_per_multiprocessor;
  int stream_priorities_supported;
  int global_l1_cache_supported;
  int local_l1_cache_supported;
  std::size_t shared_bytes_per_multiprocessor;
  int registers_per_multiprocessor;
  int managed_memory;
  int is_multi_gpu_board;
  int multi_gpu_board_group_id;
  int host_native_atomic_supported;
  int single_to_double_ratio;
  int pageable_memory_access;
  int concurrent_managed_access;
  int compute_preemption_supported;
  int can_use_host_pointer_for_registered_memory;
  int cooperative_launch;
  int cooperative_multi_device_launch;
  DevicePropTail tail;
};

}  // namespace fragscope::virtual_cuda
