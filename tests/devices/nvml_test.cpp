// SPDX-License-Identifier: Apache-2.0
// What is made of NVML's answers, whatever it answers.
#include "tests/devices/nvml_table.hpp"
#include "tests/support/result_matchers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fragscope::devices {
namespace {

using testing::HasSubstr;

class NvmlTest : public testing::Test {
 protected:
  void SetUp() override {
    machine = {};
    machine.devices.resize(1);
    machine.devices[0].uuid = "GPU-1";
  }
  static Nvml opened(const NvmlApi& api = table()) {
    auto nvml = Nvml::open(api);
    EXPECT_TRUE(nvml);
    return *nvml;
  }
  static NvmlHandle first() { return machine.devices.data(); }
};

TEST_F(NvmlTest, WhyItDoesNotStartIsSaid) {
  machine.init = 9;
  const auto nvml = Nvml::open(table());

  ASSERT_FALSE(nvml);
  EXPECT_EQ(nvml.error().message, "nvmlInit: Driver Not Loaded (9)");
}

TEST_F(NvmlTest, ProcessesComeInItsOrder) {
  machine.devices[0].processes = {{70, 700, 0, 0}, {7, 0, 0, 0}, {30, ~0ULL, 0, 0}};
  const auto processes = opened().compute_processes(first());

  ASSERT_TRUE(processes);
  ASSERT_EQ(processes->size(), 3U);
  EXPECT_EQ((*processes)[0].pid, 70U);
  EXPECT_EQ((*processes)[0].used_bytes, 700U);
  EXPECT_EQ((*processes)[1].used_bytes, 0U);
  EXPECT_EQ((*processes)[2].used_bytes, std::nullopt);
}

TEST_F(NvmlTest, TheOldestFormGivesTheSame) {
  machine.devices[0].processes = {{70, 700, 0, 0}, {7, 5, 0, 0}};
  const auto processes = opened(old_table()).all_processes(first());

  ASSERT_TRUE(processes);
  ASSERT_EQ(processes->size(), 2U);
  EXPECT_EQ((*processes)[1].pid, 7U);
  EXPECT_EQ((*processes)[1].used_bytes, 5U);
}

TEST_F(NvmlTest, ALongListIsAskedForAgain) {
  for (std::uint32_t pid = 1; pid <= 100; ++pid)
    machine.devices[0].processes.push_back({pid, pid, 0, 0});
  const auto processes = opened().compute_processes(first());

  ASSERT_TRUE(processes);
  EXPECT_EQ(processes->size(), 100U);
  EXPECT_EQ(machine.list_calls, 2U);
}

TEST_F(NvmlTest, ProcessesMayComeWhileTheyAreListed) {
  for (std::uint32_t pid = 1; pid <= 20; ++pid)
    machine.devices[0].processes.push_back({pid, pid, 0, 0});
  machine.growth = 10;
  const auto processes = opened().compute_processes(first());

  ASSERT_TRUE(processes);
  EXPECT_EQ(processes->size(), 40U);
}

TEST_F(NvmlTest, AListThatAlwaysGrowsIsGivenUp) {
  machine.growth = 20000;
  const auto processes = opened().compute_processes(first());

  ASSERT_FALSE(processes);
  EXPECT_THAT(processes.error().message, HasSubstr("(7)"));
  EXPECT_LE(machine.list_calls, 10U);
}

TEST_F(NvmlTest, ARefusedListIsAnError) {
  machine.processes = 3;
  const auto processes = opened().compute_processes(first());

  ASSERT_FALSE(processes);
  EXPECT_EQ(processes.error().message, "nvmlDeviceGetComputeRunningProcesses: Not Supported (3)");
}

TEST_F(NvmlTest, AProcessThatDrawsAndComputesComesOnce) {
  machine.devices[0].processes = {{1, 10, 0, 0}, {2, 20, 0, 0}};
  machine.devices[0].drawing = {{2, 20, 0, 0}, {3, 30, 0, 0}};
  machine.devices[0].mps = {{4, 40, 0, 0}};
  const auto processes = opened().all_processes(first());

  ASSERT_TRUE(processes);
  ASSERT_EQ(processes->size(), 4U);
  EXPECT_EQ((*processes)[1].kinds, kCompute | kGraphics);
  EXPECT_EQ((*processes)[1].used_bytes, 20U);
  EXPECT_EQ((*processes)[2].kinds, kGraphics);
  EXPECT_EQ((*processes)[3].kinds, kMps);
}

TEST_F(NvmlTest, MemoryComesFromTheNewerFunctionWhereThereIsOne) {
  const auto newer = opened().memory(first());
  const auto older = opened(old_table()).memory(first());

  ASSERT_TRUE(newer);
  ASSERT_TRUE(older);
  EXPECT_EQ(newer->reserved_bytes, 1U << 20);
  EXPECT_EQ(older->reserved_bytes, std::nullopt);
  EXPECT_EQ(newer->free_bytes, older->free_bytes);
}

TEST_F(NvmlTest, AFunctionThatIsMissingIsAnError) {
  NvmlApi api = table();
  api.device_uuid = nullptr;
  const auto uuid = opened(api).device_uuid(first());

  ASSERT_FALSE(uuid);
  EXPECT_THAT(uuid.error().message, HasSubstr("nvmlDeviceGetUUID"));
}

}  // namespace
}  // namespace fragscope::devices
