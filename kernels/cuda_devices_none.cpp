// SPDX-License-Identifier: Apache-2.0
// The answers of a build without CUDA; cuda_devices.cu has the others.
#include "kernels/cuda_devices.hpp"

namespace fragscope::kernels {

std::string_view cuda_build() {
  return "built without CUDA";
}

Result<std::vector<CudaDevice>> find_cuda_devices() {
  return failure(ErrorCode::kUnreadable, "no GPU can be used: built without CUDA");
}

}  // namespace fragscope::kernels
