// SPDX-License-Identifier: Apache-2.0
// The error numbers that CUDA's runtime and driver share, with the names and texts each of the two
// gives them. Used by everything under virtual_cuda/; NVML and cuBLAS have numbers of their own.
#pragma once

#include <cstdint>

namespace fragscope::virtual_cuda {

/// What an entry point answers. cudaError_t and CUresult agree on every number listed here.
enum class [[nodiscard]] Status : std::int32_t{
    kSuccess = 0,
    kInvalidValue = 1,
    kOutOfMemory = 2,
    kNotInitialized = 3,
    kMissingConfiguration = 52,
    kNoDevice = 100,
    kInvalidDevice = 101,
    kInvalidContext = 201,
    kOperatingSystem = 304,
    kInvalidHandle = 400,
    kIllegalState = 401,
    kNotFound = 500,
    kNotReady = 600,
    kPeerAccessAlreadyEnabled = 704,
    kPeerAccessNotEnabled = 705,
    kHostMemoryAlreadyRegistered = 712,
    kHostMemoryNotRegistered = 713,
    kNotPermitted = 800,
    kNotSupported = 801,
    kCaptureUnsupported = 900,
    kCaptureInvalidated = 901,
    kCaptureMerge = 902,
    kCaptureUnmatched = 903,
    kCaptureUnjoined = 904,
    kCaptureIsolation = 905,
    kCaptureImplicit = 906,
    kCapturedEvent = 907,
    kCaptureWrongThread = 908,
    kUnknown = 999,
};

/// How one status is called and described.
struct StatusText {
  Status status;
  const char* runtime_name;  ///< As cudaGetErrorName spells it.
  const char* driver_name;   ///< As cuGetErrorName spells it.
  const char* description;   ///< As both libraries' GetErrorString says.
};

/// The texts of a number, or null for one that virtual CUDA never answers.
[[nodiscard]] const StatusText* find_status_text(std::int32_t number);

}  // namespace fragscope::virtual_cuda
