// SPDX-License-Identifier: Apache-2.0
#include "kernels/device_choice.hpp"

#include "kernels/cuda_devices.hpp"
#include "tests/support/result_matchers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fragscope::kernels {
namespace {

using test::IsOk;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;

TEST(DeviceChoice, TakesTheCpuThatWasAskedFor) {
  const Result<DeviceChoice> choice = choose_device(Device::kCpu, kHuge);

  ASSERT_THAT(choice, IsOk());
  EXPECT_EQ(choice->device, Device::kCpu);
  EXPECT_EQ(choice->reason, "the CPU, as asked for");
}

TEST(DeviceChoice, TakesTheCpuForSmallWorkWithoutLookingForAGpu) {
  const Result<DeviceChoice> choice = choose_device(Device::kAuto, 1500000);

  ASSERT_THAT(choice, IsOk());
  EXPECT_EQ(choice->device, Device::kCpu);
  EXPECT_EQ(choice->reason, "the CPU, since no GPU would be ready before 1.4 MiB are scanned");
}

TEST(DeviceChoice, NamesWhyThereIsNoGpu) {
  if (find_cuda_devices()) GTEST_SKIP() << "there is a GPU";

  const Result<DeviceChoice> chosen = choose_device(Device::kAuto, kHuge);
  const Result<DeviceChoice> asked = choose_device(Device::kCuda, 0);

  ASSERT_THAT(chosen, IsOk());
  EXPECT_EQ(chosen->device, Device::kCpu);
  EXPECT_THAT(chosen->reason, StartsWith("the CPU, since no GPU can be used: "));
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, ErrorCode::kUnreadable);
  EXPECT_THAT(asked.error().describe(),
              AnyOf(HasSubstr("built without CUDA"), HasSubstr("cudaError")));
}

// 10 GB/s here; there 20 GB/s, but half a second to begin with: even at 10 GB.
TEST(DeviceChoice, TurnsAtTheBreakEvenOfWhatWasMeasured) {
  const ScanSpeeds speeds{10e9, 20e9, 0.5};

  EXPECT_EQ(choose_by_speed(speeds, 9'900'000'000).device, Device::kCpu);
  EXPECT_EQ(choose_by_speed(speeds, 10'100'000'000).device, Device::kCuda);
  EXPECT_EQ(choose_by_speed(speeds, 9'900'000'000).reason,
            "the CPU, since for 9.2 GiB it is done first; measured here: the CPU scans 9.3 GiB/s, "
            "CUDA 18.6 GiB/s with the transfer");
}

}  // namespace
}  // namespace fragscope::kernels
