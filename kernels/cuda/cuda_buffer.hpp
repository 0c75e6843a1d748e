// SPDX-License-Identifier: Apache-2.0
// Memory from CUDA that goes back by itself: the device's, and pinned memory of the host, which
// copies run beside computation from. Used by .cu files.
#pragma once

#include "kernels/cuda/cuda_result.hpp"
#include "trace/check.hpp"

#include <cstdint>
#include <utility>

namespace fragscope::kernels {

struct DeviceMemory {
  static constexpr const char* kCall = "cudaMalloc";
  static cudaError_t take(void** at, std::size_t bytes) { return cudaMalloc(at, bytes); }
  static cudaError_t give_back(void* at) { return cudaFree(at); }
};

struct PinnedMemory {
  static constexpr const char* kCall = "cudaMallocHost";
  static cudaError_t take(void** at, std::size_t bytes) { return cudaMallocHost(at, bytes); }
  static cudaError_t give_back(void* at) { return cudaFreeHost(at); }
};

/// Elements whose contents are undefined until they are written.
template <class T, class Memory>
class CudaBuffer {
 public:
  CudaBuffer() = default;
  CudaBuffer(CudaBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr))
      , count_(std::exchange(other.count_, 0)) {}
  CudaBuffer& operator=(CudaBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;
  ~CudaBuffer() {
    if (data_ == nullptr) return;
    [[maybe_unused]] const cudaError_t error = Memory::give_back(data_);
    FRAGSCOPE_DCHECK(error == cudaSuccess);
  }

  [[nodiscard]] static Result<CudaBuffer> make(std::uint64_t count) {
    CudaBuffer buffer;
    if (count == 0) return buffer;
    void* at = nullptr;
    if (auto taken = cuda_result(Memory::kCall, Memory::take(&at, count * sizeof(T))); !taken) {
      return tl::unexpected(std::move(taken.error()));
    }
    buffer.data_ = static_cast<T*>(at);
    buffer.count_ = count;
    return buffer;
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return count_; }
  [[nodiscard]] std::uint64_t size_bytes() const { return count_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  std::uint64_t count_ = 0;
};

template <class T>
using DeviceBuffer = CudaBuffer<T, DeviceMemory>;
template <class T>
using PinnedBuffer = CudaBuffer<T, PinnedMemory>;

}  // namespace fragscope::kernels
