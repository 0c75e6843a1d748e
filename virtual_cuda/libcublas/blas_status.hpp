// SPDX-License-Identifier: Apache-2.0
// What cuBLAS and cuBLASLt have in common: their error numbers and how they give work to a stream.
#pragma once

#include "virtual_cuda/core/call.hpp"

#include <cstdint>
#include <utility>

namespace fragscope::virtual_cuda {

/// The version that both libraries say they are, by the CUDA version they are built for.
inline constexpr int kBlasVersion = FRAGSCOPE_CUDART_MAJOR == 12 ? 120400 : 130200;

/// cublasStatus_t.
enum class BlasStatus : std::int32_t {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kNotSupported = 15,
};

[[nodiscard]] inline const char* blas_status_name(std::int32_t status) {
  switch (static_cast<BlasStatus>(status)) {
    case BlasStatus::kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case BlasStatus::kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case BlasStatus::kAllocFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case BlasStatus::kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case BlasStatus::kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case BlasStatus::kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

/// An entry point of cuBLAS. Its failures are not CUDA's last error.
template <class Body>
std::int32_t blas_call(const char* name, Body&& body) noexcept {
  switch (locked_call(name, std::forward<Body>(body))) {
    case Status::kSuccess:
      return static_cast<std::int32_t>(BlasStatus::kSuccess);
    case Status::kOutOfMemory:
      return static_cast<std::int32_t>(BlasStatus::kAllocFailed);
    default:
      return static_cast<std::int32_t>(BlasStatus::kExecutionFailed);
  }
}

/// One piece of work that computes nothing.
[[nodiscard]] inline std::int32_t blas_work(const char* name, StreamHandle stream) noexcept {
  return blas_call(name, [&](Call& call) -> Status {
    const std::uint64_t duration_ns = call.machine.options().kernel_ns;
    return call.enqueue(stream, {.kind = NodeKind::kKernel, .duration_ns = duration_ns});
  });
}

}  // namespace fragscope::virtual_cuda
