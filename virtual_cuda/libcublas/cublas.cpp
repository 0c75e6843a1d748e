// SPDX-License-Identifier: Apache-2.0
// cuBLAS: handles and their settings are kept, and every routine is one piece of work on the
// handle's stream that computes nothing. The routines are generated from stubs/entry_points.txt.
#include "virtual_cuda/core/call.hpp"
#include "virtual_cuda/libcublas/blas_status.hpp"

#include <memory>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

struct Context {
  StreamHandle stream = nullptr;
  std::int32_t math_mode = 0;
  std::int32_t pointer_mode = 0;
  std::int32_t atomics_mode = 0;
  std::int32_t sm_count_target = 0;
};

Context& context_of(void* handle) {
  return *static_cast<Context*>(handle);
}

}  // namespace

extern "C" {

/// What every generated routine does.
std::int32_t fragscope_vc_blas_routine(const char* name, void* handle) {
  if (handle == nullptr) return static_cast<std::int32_t>(BlasStatus::kNotInitialized);
  return blas_work(name, context_of(handle).stream);
}

std::int32_t cublasCreate_v2(void** handle) {
  return blas_call(__func__, [&](Call& call) -> Status {
    static_cast<void>(call.device());
    *handle = std::make_unique<Context>().release();
    return Status::kSuccess;
  });
}

std::int32_t cublasDestroy_v2(void* handle) {
  const std::unique_ptr<Context> owner(static_cast<Context*>(handle));
  return 0;
}

std::int32_t cublasSetStream_v2(void* handle, StreamHandle stream) {
  context_of(handle).stream = stream;
  return 0;
}
std::int32_t cublasGetStream_v2(void* handle, StreamHandle* stream) {
  *stream = context_of(handle).stream;
  return 0;
}
std::int32_t cublasSetWorkspace_v2(void*, void*, std::size_t) {
  return 0;
}
std::int32_t cublasSetMathMode(void* handle, std::int32_t mode) {
  context_of(handle).math_mode = mode;
  return 0;
}
std::int32_t cublasGetMathMode(void* handle, std::int32_t* mode) {
  *mode = context_of(handle).math_mode;
  return 0;
}
std::int32_t cublasSetPointerMode_v2(void* handle, std::int32_t mode) {
  context_of(handle).pointer_mode = mode;
  return 0;
}
std::int32_t cublasGetPointerMode_v2(void* handle, std::int32_t* mode) {
  *mode = context_of(handle).pointer_mode;
  return 0;
}
std::int32_t cublasSetAtomicsMode(void* handle, std::int32_t mode) {
  context_of(handle).atomics_mode = mode;
  return 0;
}
std::int32_t cublasGetAtomicsMode(void* handle, std::int32_t* mode) {
  *mode = context_of(handle).atomics_mode;
  return 0;
}
std::int32_t cublasSetSmCountTarget(void* handle, std::int32_t count) {
  context_of(handle).sm_count_target = count;
  return 0;
}
std::int32_t cublasGetSmCountTarget(void* handle, std::int32_t* count) {
  *count = context_of(handle).sm_count_target;
  return 0;
}

std::int32_t cublasGetVersion_v2(void*, int* version) {
  *version = kBlasVersion;
  return 0;
}

std::int32_t cublasGetProperty(std::int32_t property, int* value) {
  // Major, minor and patch level of kBlasVersion.
  const int parts[] = {kBlasVersion / 10000, kBlasVersion / 100 % 100, kBlasVersion % 100};
  if (property < 0 || property > 2) return static_cast<std::int32_t>(BlasStatus::kInvalidValue);
  *value = parts[property];
  return 0;
}

const char* cublasGetStatusName(std::int32_t status) {
  return blas_status_name(status);
}
const char* cublasGetStatusString(std::int32_t status) {
  return blas_status_name(status);
}

}  // extern "C"
