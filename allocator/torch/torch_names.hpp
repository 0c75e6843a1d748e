// SPDX-License-Identifier: Apache-2.0
// PyTorch's names for a caching allocator, and the one place where its versions differ. Everything
// in this folder includes it and nothing else of PyTorch's by itself. Tried on 2.6 and 2.15.
//
// This folder is built against the installed PyTorch by one call of a C++ compiler
// (allocator/python/fragscope/shim.py), so it uses only what needs nothing but the standard
// library, and gives no std::string to the rest of the project: a wheel may have the old one.
#pragma once

#include <string>

#include <torch/csrc/api/include/torch/version.h>

// 2.6 reads expandable_segments in its header, and there only if it was built with this, as all its
// builds for CUDA on Linux are.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 10 && \
    !defined(PYTORCH_C10_DRIVER_API_SUPPORTED)
#define PYTORCH_C10_DRIVER_API_SUPPORTED 1
#endif

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

/// The interface of 2.15: DeviceAllocator, pools that are handed to emptyCache and snapshot, pools
/// in trace entries, user metadata. Without it that of 2.6.
#define FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR \
  (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR > 6))

namespace fragscope::shim {

namespace caching = c10::cuda::CUDACachingAllocator;

using c10::DataPtr;
using c10::DeviceIndex;
using c10::cuda::CUDAStream;
using c10::cuda::MempoolId_t;
using caching::AllocatorTraceTracker;
using caching::CreateContextFn;
using caching::CUDAAllocator;
using caching::RecordContext;
using caching::SnapshotInfo;
using caching::TraceEntry;

/// Every block, without the history where the version lets one ask for that.
inline SnapshotInfo blocks_of(CUDAAllocator& native) {
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  return native.snapshot({0, 0}, false);
#else
  return native.snapshot();
#endif
}

#if !FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
/// What emptyCache() is about there: the pool in use alone, if there is one.
inline MempoolId_t pool_to_empty() {
  c10::cuda::MemPool* active = c10::cuda::MemPoolContext::getActiveMemPool();
  return active == nullptr ? MempoolId_t{0, 0} : active->id();
}
#endif

/// Makes PyTorch read its settings now. Throws what PyTorch says of them.
inline void parse_settings() {
  // Two singletons, and only what is not forwarded to the other one reaches the first.
  static_cast<void>(caching::CUDAAllocatorConfig::release_lock_on_cudamalloc());
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  static_cast<void>(c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size());
#endif
}

/// The settings as PyTorch took them last, from the variable or at run time. Takes a lock.
inline std::string last_settings() {
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  return c10::CachingAllocator::getAllocatorSettings();
#else
  return caching::CUDAAllocatorConfig::last_allocator_settings();
#endif
}

}  // namespace fragscope::shim
