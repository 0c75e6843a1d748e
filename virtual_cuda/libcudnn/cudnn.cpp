// SPDX-License-Identifier: Apache-2.0
// cuDNN: its version, its handles, and the batch normalisation of its older interface. Convolutions
// and attention go through backend.cpp; recurrent layers and the rest are missing and say so.
#include "virtual_cuda/libcudnn/context.hpp"

#include <cstddef>
#include <memory>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

// PyTorch refuses a library that is older than the one it was built with, inside one major version.
constexpr std::size_t kMajor = 9;
constexpr std::size_t kMinor = 99;

std::int32_t create(void** descriptor) {
  *descriptor = std::make_unique<DnnOpaque>().release();
  return 0;
}

std::int32_t destroy(void* descriptor) {
  const std::unique_ptr<DnnOpaque> owner(static_cast<DnnOpaque*>(descriptor));
  return 0;
}

// Nothing here needs workspace.
std::int32_t no_bytes(std::size_t* size_bytes) {
  *size_bytes = 0;
  return 0;
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() {
  return kMajor * 10000 + kMinor * 100;
}
std::size_t cudnnGetCudartVersion() {
  return 13020;
}

std::int32_t cudnnGetProperty(std::int32_t property, int* value) {
  const std::size_t parts[] = {kMajor, kMinor, 0};
  if (property < 0 || property > 2) return static_cast<std::int32_t>(DnnStatus::kBadParameter);
  *value = static_cast<int>(parts[property]);
  return 0;
}

const char* cudnnGetErrorString(std::int32_t status) {
  switch (static_cast<DnnStatus>(status)) {
    case DnnStatus::kSuccess:
      return "CUDNN_STATUS_SUCCESS";
    case DnnStatus::kBadParameter:
      return "CUDNN_STATUS_BAD_PARAM";
    case DnnStatus::kNotSupported:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case DnnStatus::kInternalError:
      return "CUDNN_STATUS_INTERNAL_ERROR";
  }
  return "CUDNN_UNKNOWN_STATUS";
}

std::int32_t cudnnCreate(void** handle) {
  *handle = std::make_unique<DnnContext>().release();
  return 0;
}
std::int32_t cudnnDestroy(void* handle) {
  const std::unique_ptr<DnnContext> owner(static_cast<DnnContext*>(handle));
  return 0;
}
std::int32_t cudnnSetStream(void* handle, StreamHandle stream) {
  static_cast<DnnContext*>(handle)->stream = stream;
  return 0;
}
std::int32_t cudnnGetStream(void* handle, StreamHandle* stream) {
  *stream = static_cast<DnnContext*>(handle)->stream;
  return 0;
}

std::int32_t cudnnCreateTensorDescriptor(void** descriptor) {
  return create(descriptor);
}
std::int32_t cudnnSetTensorNdDescriptor(void*, std::int32_t, int, const int*, const int*) {
  return 0;
}
std::int32_t cudnnDestroyTensorDescriptor(void* descriptor) {
  return destroy(descriptor);
}
std::int32_t cudnnCreateActivationDescriptor(void** descriptor) {
  return create(descriptor);
}
std::int32_t cudnnSetActivationDescriptor(void*, std::int32_t, std::int32_t, double) {
  return 0;
}
std::int32_t cudnnDestroyActivationDescriptor(void* descriptor) {
  return destroy(descriptor);
}

std::int32_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    void*, std::int32_t, std::int32_t, void*, void*, void*, void*, void*, std::size_t* size_bytes) {
  return no_bytes(size_bytes);
}
std::int32_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(void*,
                                                               std::int32_t,
                                                               std::int32_t,
                                                               void*,
                                                               void*,
                                                               void*,
                                                               void*,
                                                               void*,
                                                               void*,
                                                               void*,
                                                               std::size_t* size_bytes) {
  return no_bytes(size_bytes);
}
std::int32_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    void*, std::int32_t, std::int32_t, void*, void*, std::size_t* size_bytes) {
  return no_bytes(size_bytes);
}

// Their other parameters say what to compute with what.
std::int32_t cudnnBatchNormalizationForwardTrainingEx(void* handle) {
  return dnn_work(__func__, handle);
}
std::int32_t cudnnBatchNormalizationForwardInference(void* handle) {
  return dnn_work(__func__, handle);
}
std::int32_t cudnnBatchNormalizationBackwardEx(void* handle) {
  return dnn_work(__func__, handle);
}

}  // extern "C"
