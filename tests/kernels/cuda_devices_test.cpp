// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace fragscope::kernels {
namespace {

/// The reasons that a build can give; CUDA's own come with the name of the call that failed.
constexpr const char* kReasons =
    "no GPU can be used: (built without CUDA|cuda[A-Za-z]+: cudaError)";

TEST(CudaBuild, NamesTheToolkitOrSaysThatThereIsNone) {
  const std::string build(cuda_build());

  EXPECT_THAT(build, ::testing::MatchesRegex("built without CUDA|CUDA 1[0-9].[0-9]+ for sm_.*"));
}

TEST(FindCudaDevices, ListsDevicesOrNamesTheError) {
  const Result<std::vector<CudaDevice>> devices = find_cuda_devices();

  if (!devices) {
    EXPECT_EQ(devices.error().code, ErrorCode::kUnreadable);
    EXPECT_THAT(devices.error().describe(), ::testing::ContainsRegex(kReasons));
    return;
  }
  ASSERT_FALSE(devices->empty());
  for (const CudaDevice& device : *devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_EQ(device.uuid.size(), 40U) << device.uuid;
    EXPECT_GT(device.total_bytes, 0U);
  }
}

// The CUDA runtime reads the variable once, at its first call, so the question is put in a process
// of its own; on a machine with GPUs an answer from this one would prove nothing.
TEST(FindCudaDevices, FailsCleanlyWhereEveryDeviceIsHidden) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto ask_and_exit = [] {
    ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
    const Result<std::vector<CudaDevice>> devices = find_cuda_devices();
    std::fputs(devices ? "devices found" : devices.error().describe().c_str(), stderr);
    std::exit(devices ? EXIT_FAILURE : EXIT_SUCCESS);
  };

  EXPECT_EXIT(ask_and_exit(), ::testing::ExitedWithCode(EXIT_SUCCESS), kReasons);
}

}  // namespace
}  // namespace fragscope::kernels
