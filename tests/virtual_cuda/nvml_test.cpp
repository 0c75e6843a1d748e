// SPDX-License-Identifier: Apache-2.0
// The NVML of virtual CUDA: what it shows, and that it refuses as the real one does. The machine of
// a process is made once, so all tests are about one.
#include "devices/nvml.hpp"

#include "virtual_cuda/core/control.h"
#include "virtual_cuda/core/options.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

extern "C" {
std::int32_t nvmlInit_v2();
std::int32_t nvmlSystemGetProcessName(unsigned pid, char* text, unsigned size_bytes);
std::int32_t nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device);
std::int32_t nvmlDeviceGetHandleByUUID(const char* text, void** device);
std::int32_t nvmlDeviceGetMemoryInfo_v2(void* device, fragscope::devices::NvmlMemory2* info);
std::int32_t nvmlDeviceGetComputeRunningProcesses(void* device,
                                                  unsigned* count,
                                                  fragscope::devices::NvmlProcess1* processes);
std::int32_t nvmlDeviceGetComputeRunningProcesses_v3(void* device,
                                                     unsigned* count,
                                                     fragscope::devices::NvmlProcess2* processes);
std::int32_t nvmlDeviceGetTemperature(void* device, std::int32_t sensor, unsigned* celsius);
}

namespace fragscope::virtual_cuda {
namespace {

using devices::NvmlMemory2;
using devices::NvmlProcess1;
using devices::NvmlProcess2;

constexpr const char* kFirstUuid = "GPU-f7a65c0e-0000-8000-8000-000000000000";

class VirtualNvmlTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv(kOptionsVariable,  // NOLINT(concurrency-mt-unsafe)
             "gpus=2,memory=10GiB,neighbour=1GiB,process=0:77:2GiB:python train.py,"
             "process=0:78:1GiB,nvml=Temperature:4",
             1);
    ASSERT_EQ(nvmlInit_v2(), 0);
  }
  void SetUp() override { ASSERT_EQ(nvmlDeviceGetHandleByUUID(kFirstUuid, &first_), 0); }

  void* first_ = nullptr;
};

TEST_F(VirtualNvmlTest, OthersTakeOfTheMemory) {
  NvmlMemory2 memory;
  ASSERT_EQ(nvmlDeviceGetMemoryInfo_v2(first_, &memory), 0);

  EXPECT_EQ(memory.total_bytes, 10 * kGiB);
  EXPECT_EQ(memory.free_bytes, 6 * kGiB);
  EXPECT_EQ(memory.used_bytes, 4 * kGiB);
}

TEST_F(VirtualNvmlTest, AMemoryOfAnotherVersionIsRefused) {
  NvmlMemory2 memory;
  memory.version = 1;
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(first_, &memory), 25);
}

TEST_F(VirtualNvmlTest, WithTooLittleRoomItSaysHowMuchIsNeeded) {
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(first_, &count, nullptr), 7);
  EXPECT_EQ(count, 3U);

  std::array<NvmlProcess1, 2> two{};
  count = 2;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses(first_, &count, two.data()), 7);
  EXPECT_EQ(count, 3U);
}

TEST_F(VirtualNvmlTest, BothFormsShowTheSameProcesses) {
  std::array<NvmlProcess1, 8> older{};
  std::array<NvmlProcess2, 8> newer{};
  unsigned count = 8;
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses(first_, &count, older.data()), 0);
  count = 8;
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(first_, &count, newer.data()), 0);

  ASSERT_EQ(count, 3U);
  EXPECT_EQ(newer[0].pid, 1U << 22);
  EXPECT_EQ(newer[1].pid, 77U);
  EXPECT_EQ(newer[1].used_bytes, 2 * kGiB);
  EXPECT_EQ(newer[1].gpu_instance, ~0U);
  for (unsigned i = 0; i < count; ++i) {
    EXPECT_EQ(older[i].pid, newer[i].pid);
    EXPECT_EQ(older[i].used_bytes, newer[i].used_bytes);
  }
}

TEST_F(VirtualNvmlTest, ANameIsCutToItsRoom) {
  std::array<char, 8> text{};
  EXPECT_EQ(nvmlSystemGetProcessName(77, text.data(), 7), 0);
  EXPECT_STREQ(text.data(), "python");
  EXPECT_EQ(nvmlSystemGetProcessName(78, text.data(), 8), 6);
  EXPECT_EQ(nvmlSystemGetProcessName(77, text.data(), 0), 2);
  EXPECT_EQ(nvmlSystemGetProcessName(static_cast<unsigned>(::getpid()), text.data(), 8), 0);
}

TEST_F(VirtualNvmlTest, AnswersCanBePlanned) {
  unsigned celsius = 0;
  EXPECT_EQ(nvmlDeviceGetTemperature(first_, 0, &celsius), 4);
}

TEST_F(VirtualNvmlTest, AnUnknownDeviceIsRefused) {
  void* device = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(2, &device), 2);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID("GPU-f7a65c0e", &device), 6);
}

// The whole way: the library by its name, its functions by theirs.
TEST_F(VirtualNvmlTest, OurOwnSideReadsIt) {
  const Result<devices::Nvml>& nvml = devices::nvml();
  ASSERT_TRUE(nvml) << nvml.error().message;
  EXPECT_EQ(*nvml->device_count(), 2U);
  const auto device = nvml->device_by_pci("00000000:02:00.0");
  ASSERT_TRUE(device);
  EXPECT_EQ(*nvml->device_index(*device), 1U);
  EXPECT_EQ(nvml->all_processes(first_)->size(), 3U);
  EXPECT_EQ(nvml->process_name(77), "python train.py");
  EXPECT_FALSE(nvml->is_mig(first_));
}

}  // namespace
}  // namespace fragscope::virtual_cuda
