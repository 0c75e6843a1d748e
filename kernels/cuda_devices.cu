// SPDX-License-Identifier: Apache-2.0
// The answers of a build with CUDA; cuda_devices_none.cpp has the others.
#include "kernels/cuda_devices.hpp"

#include "kernels/cuda/cuda_result.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>

namespace fragscope::kernels {
namespace {

/// "cudaGetDeviceCount: cudaErrorNoDevice (100), no CUDA-capable device is detected".
tl::unexpected<Error> cuda_failure(const char* call, cudaError_t error) {
  return failure(ErrorCode::kUnreadable, "no GPU can be used: " + describe_cuda_error(call, error));
}

std::string describe_build() {
  constexpr std::array kArchitectures{__CUDA_ARCH_LIST__};  // nvcc: 800,900,1000
  std::string text = "CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
                     std::to_string(CUDART_VERSION % 1000 / 10) + " for ";
  const char* separator = "";
  for (const int architecture : kArchitectures) {
    text += separator;
    text += "sm_" + std::to_string(architecture / 10);
    separator = ", ";
  }
  return text;
}

std::string format_uuid(const cudaUUID_t& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

std::string_view cuda_build() {
  static const std::string text = describe_build();
  return text;
}

Result<std::vector<CudaDevice>> find_cuda_devices() {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  // Without a driver this is cudaErrorInsufficientDriver, with every device hidden
  // cudaErrorNoDevice: whatever the error, there is no GPU for us.
  if (error != cudaSuccess) return cuda_failure("cudaGetDeviceCount", error);
  if (count == 0) return cuda_failure("cudaGetDeviceCount", cudaErrorNoDevice);

  std::vector<CudaDevice> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties{};
    error = cudaGetDeviceProperties(&properties, ordinal);
    if (error != cudaSuccess) return cuda_failure("cudaGetDeviceProperties", error);
    devices.push_back({.ordinal = ordinal,
                       .name = properties.name,
                       .uuid = format_uuid(properties.uuid),
                       .compute_major = properties.major,
                       .compute_minor = properties.minor,
                       .total_bytes = properties.totalGlobalMem});
  }
  return devices;
}

}  // namespace fragscope::kernels
