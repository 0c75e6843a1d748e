// SPDX-License-Identifier: Apache-2.0
// CUDA's errors as ours: the call that failed and CUDA's own name for the error. Used by .cu files.
#pragma once

#include "trace/result.hpp"

#include <cuda_runtime_api.h>

#include <string>

namespace fragscope::kernels {

/// "cudaMalloc: cudaErrorMemoryAllocation (2), out of memory".
[[nodiscard]] inline std::string describe_cuda_error(const char* call, cudaError_t error) {
  return std::string(call) + ": " + cudaGetErrorName(error) + " (" +
         std::to_string(static_cast<int>(error)) + "), " + cudaGetErrorString(error);
}

/// What a CUDA call answered.
[[nodiscard]] inline Result<void> cuda_result(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return {};
  return failure(ErrorCode::kUnreadable, describe_cuda_error(call, error));
}

}  // namespace fragscope::kernels
