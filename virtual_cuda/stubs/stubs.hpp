// SPDX-License-Identifier: Apache-2.0
// The forms that generated entry points take. All are weak, so whatever a library implements itself
// takes their place. Included by the files that CMake generates from entry_points.txt.
#pragma once

#include "virtual_cuda/core/unimplemented.hpp"

#include <cstdint>

extern "C" std::int32_t fragscope_vc_blas_routine(const char* name, void* handle);

/// Says that it is missing and fails with the library's own number for "not supported".
#define FRAGSCOPE_STUB(name, code)                  \
  extern "C" __attribute__((weak)) long name() {    \
    return fragscope_vc_unimplemented(#name, code); \
  }

/// One that returns a text, which programs print.
#define FRAGSCOPE_TEXT_STUB(name)                       \
  extern "C" __attribute__((weak)) const char* name() { \
    return "not known to virtual CUDA";                 \
  }

/// One that succeeds because nothing depends on it.
#define FRAGSCOPE_QUIET_STUB(name)               \
  extern "C" __attribute__((weak)) long name() { \
    return 0;                                    \
  }

/// A routine of cuBLAS: work on its handle's stream.
#define FRAGSCOPE_BLAS_STUB(name)                                    \
  extern "C" __attribute__((weak)) std::int32_t name(void* handle) { \
    return fragscope_vc_blas_routine(#name, handle);                 \
  }
