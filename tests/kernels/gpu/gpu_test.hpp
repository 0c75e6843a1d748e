// SPDX-License-Identifier: Apache-2.0
// What all tests that need a GPU begin with: without one they are skipped and say why.
#pragma once

#include "kernels/cuda_devices.hpp"

#include <gtest/gtest.h>

namespace fragscope::kernels {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto devices = find_cuda_devices();
    if (!devices) GTEST_SKIP() << devices.error().describe();
  }
};

}  // namespace fragscope::kernels
