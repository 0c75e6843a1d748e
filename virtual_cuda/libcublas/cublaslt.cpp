// SPDX-License-Identifier: Apache-2.0
// cuBLASLt: descriptors are accepted and forgotten, the one heuristic needs no workspace, and a
// matrix product is one piece of work on its stream that computes nothing.
#include "virtual_cuda/libcublas/blas_status.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

// Stands for a descriptor of any kind; programs hold its address and never look inside.
struct Opaque {
  char unused = 0;
};

std::int32_t create(void** handle) {
  return blas_call("cublasLtCreate", [&](Call&) -> Status {
    *handle = std::make_unique<Opaque>().release();
    return Status::kSuccess;
  });
}

std::int32_t destroy(void* handle) {
  const std::unique_ptr<Opaque> owner(static_cast<Opaque*>(handle));
  return 0;
}

// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  std::array<std::uint64_t, 8> algorithm;
  std::size_t workspace_bytes;
  std::int32_t state;
  float waves;
  std::array<std::int32_t, 4> reserved;
};
static_assert(sizeof(HeuristicResult) == 96);

}  // namespace

extern "C" {

std::int32_t cublasLtCreate(void** handle) {
  return create(handle);
}
std::int32_t cublasLtDestroy(void* handle) {
  return destroy(handle);
}
std::size_t cublasLtGetVersion() {
  return kBlasVersion;
}
std::size_t cublasLtGetCudartVersion() {
  constexpr std::size_t kVersion = kBlasVersion;
  return kVersion / 100 * 10;
}
const char* cublasLtGetStatusName(std::int32_t status) {
  return blas_status_name(status);
}
const char* cublasLtGetStatusString(std::int32_t status) {
  return blas_status_name(status);
}

std::int32_t cublasLtMatmulDescCreate(void** descriptor, std::int32_t, std::int32_t) {
  return create(descriptor);
}
std::int32_t cublasLtMatmulDescDestroy(void* descriptor) {
  return destroy(descriptor);
}
std::int32_t cublasLtMatmulDescSetAttribute(void*, std::int32_t, const void*, std::size_t) {
  return 0;
}

std::int32_t cublasLtMatrixLayoutCreate(
    void** layout, std::int32_t, std::uint64_t, std::uint64_t, std::int64_t) {
  return create(layout);
}
std::int32_t cublasLtMatrixLayoutDestroy(void* layout) {
  return destroy(layout);
}
std::int32_t cublasLtMatrixLayoutSetAttribute(void*, std::int32_t, const void*, std::size_t) {
  return 0;
}

std::int32_t cublasLtMatmulPreferenceCreate(void** preference) {
  return create(preference);
}
std::int32_t cublasLtMatmulPreferenceDestroy(void* preference) {
  return destroy(preference);
}
std::int32_t cublasLtMatmulPreferenceSetAttribute(void*, std::int32_t, const void*, std::size_t) {
  return 0;
}

std::int32_t cublasLtMatmulAlgoGetHeuristic(void*,
                                            void*,
                                            void*,
                                            void*,
                                            void*,
                                            void*,
                                            void*,
                                            int wanted,
                                            HeuristicResult* results,
                                            int* found) {
  *found = wanted > 0 ? 1 : 0;
  if (wanted > 0) results[0] = {};
  return 0;
}

std::int32_t cublasLtMatmul(void*,
                            void*,
                            const void*,
                            const void*,
                            void*,
                            const void*,
                            void*,
                            const void*,
                            const void*,
                            void*,
                            void*,
                            void*,
                            const void*,
                            void*,
                            std::size_t,
                            StreamHandle stream) {
  return blas_work(__func__, stream);
}

}  // extern "C"
