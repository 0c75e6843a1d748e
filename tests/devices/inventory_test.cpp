// SPDX-License-Identifier: Apache-2.0
// What NVML, the driver and the environment say, put together.
#include "devices/inventory.hpp"

#include "tests/devices/nvml_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

namespace fragscope::devices {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class InventoryTest : public testing::Test {
 protected:
  void SetUp() override {
    machine = {};
    machine.devices.resize(2);
    machine.devices[0].uuid = "GPU-aa";
    machine.devices[1].uuid = "GPU-bb";
    driver_.cuda_version = 13020;
  }
  void driver_shows(std::initializer_list<const char*> uuids) {
    for (const char* uuid : uuids)
      driver_.devices.push_back({"NVIDIA Test", uuid, "00000000:01:00.0", 79, std::nullopt});
  }
  Inventory made() {
    auto inventory = make_inventory(Nvml::open(table()), driver_, environment_);
    EXPECT_TRUE(inventory);
    return inventory ? *inventory : Inventory{};
  }
  static std::vector<std::optional<int>> ordinals(const Inventory& inventory) {
    std::vector<std::optional<int>> all;
    for (const InventoryDevice& device : inventory.devices)
      all.push_back(device.cuda_ordinal);
    return all;
  }

  DriverAnswer driver_;
  Environment environment_;
};

TEST_F(InventoryTest, TheDriversOrderHoldsWhateverTheVariableSays) {
  environment_.visible_variable = "0,1";
  driver_shows({"GPU-bb", "GPU-aa"});
  const Inventory inventory = made();

  EXPECT_EQ(inventory.ordinals, OrdinalSource::kDriver);
  EXPECT_THAT(ordinals(inventory), ElementsAre(1, 0));
  EXPECT_EQ(inventory.devices[0].host_index, 0U);
  EXPECT_EQ(inventory.devices[1].host_index, 1U);
}

TEST_F(InventoryTest, WhereTheDriverShowsNoneNobodyHasANumber) {
  environment_.visible_variable = "";
  driver_.problem = "cuInit: CUDA_ERROR_NO_DEVICE";
  driver_.shows_none = true;
  const Inventory inventory = made();

  EXPECT_EQ(inventory.ordinals, OrdinalSource::kDriver);
  EXPECT_THAT(ordinals(inventory), ElementsAre(std::nullopt, std::nullopt));
}

TEST_F(InventoryTest, WithoutADriverTheVariableIsRead) {
  environment_.visible_variable = "1,9";
  driver_.problem = "no CUDA driver";
  const Inventory inventory = made();

  EXPECT_EQ(inventory.ordinals, OrdinalSource::kVariable);
  EXPECT_THAT(ordinals(inventory), ElementsAre(std::nullopt, 0));
  EXPECT_EQ(inventory.visible.stopped_at, "9");
}

TEST_F(InventoryTest, AmongUnlikeGpusTheVariableAloneDoesNotTell) {
  machine.devices[1].name = "NVIDIA Other";
  driver_.problem = "no CUDA driver";
  EXPECT_EQ(made().ordinals, OrdinalSource::kNone);

  environment_.order_variable = "PCI_BUS_ID";
  EXPECT_EQ(made().ordinals, OrdinalSource::kVariable);
}

TEST_F(InventoryTest, EachMigDeviceFollowsItsGpu) {
  machine.devices[0].parts.resize(2);
  machine.devices[0].parts[0].uuid = "MIG-11";
  machine.devices[0].parts[1].uuid = "MIG-22";
  machine.devices[0].parts[1].free_bytes = 5;
  driver_shows({"GPU-22"});  // The driver says no more than the digits.
  const Inventory inventory = made();

  ASSERT_EQ(inventory.devices.size(), 4U);
  EXPECT_TRUE(inventory.devices[0].is_mig_enabled);
  EXPECT_EQ(inventory.devices[2].uuid, "MIG-22");
  EXPECT_EQ(inventory.devices[2].mig_parent, "GPU-aa");
  EXPECT_EQ(inventory.devices[2].cuda_ordinal, 0);
  EXPECT_EQ(inventory.devices[2].free_bytes, 5U);
}

TEST_F(InventoryTest, WithoutNvmlThereIsWhatTheDriverKnows) {
  machine.init = 9;
  driver_shows({"GPU-bb"});
  const Inventory inventory = made();

  EXPECT_THAT(inventory.nvml_problem, HasSubstr("Driver Not Loaded"));
  ASSERT_EQ(inventory.devices.size(), 1U);
  EXPECT_EQ(inventory.devices[0].total_bytes, 79U);
  EXPECT_EQ(inventory.devices[0].free_bytes, std::nullopt);
  EXPECT_EQ(inventory.devices[0].host_index, std::nullopt);
  EXPECT_EQ(inventory.devices[0].processes, std::nullopt);
}

TEST_F(InventoryTest, WithNeitherThereIsOneReasonOfBoth) {
  machine.init = 9;
  driver_.problem = "no CUDA driver: libcuda.so.1";
  const auto inventory = make_inventory(Nvml::open(table()), driver_, environment_);

  ASSERT_FALSE(inventory);
  EXPECT_EQ(inventory.error().message,
            "no device: nvmlInit: Driver Not Loaded (9); no CUDA driver: libcuda.so.1");
}

TEST_F(InventoryTest, WhatIsRefusedIsMissingAndSaid) {
  machine.memory = 3;
  machine.processes = 3;
  const Inventory inventory = made();

  EXPECT_EQ(inventory.devices[0].free_bytes, std::nullopt);
  EXPECT_EQ(inventory.devices[0].processes, std::nullopt);
  EXPECT_THAT(inventory.devices[0].problems,
              ElementsAre("nvmlDeviceGetMemoryInfo: Not Supported (3)",
                          "nvmlDeviceGetComputeRunningProcesses: Not Supported (3)"));
}

TEST_F(InventoryTest, ALostDeviceHidesNoOther) {
  machine.devices[0].is_lost = true;
  const Inventory inventory = made();

  ASSERT_EQ(inventory.devices.size(), 2U);
  EXPECT_FALSE(inventory.devices[0].problems.empty());
  EXPECT_EQ(inventory.devices[1].uuid, "GPU-bb");
}

TEST_F(InventoryTest, AProcessIsVisibleOrNot) {
  const auto here = static_cast<std::uint32_t>(::getpid());
  constexpr std::uint32_t kNowhere = 1U << 30;
  machine.names[77] = "python";
  machine.devices[0].processes = {{here, 100, 0, 0}, {kNowhere, 0, 0, 0}, {77, 5, 0, 0}};
  const Inventory inventory = made();

  ASSERT_TRUE(inventory.devices[0].processes);
  const auto& processes = *inventory.devices[0].processes;
  EXPECT_TRUE(processes[0].is_visible);
  EXPECT_EQ(processes[0].used_bytes, 100U);
  EXPECT_FALSE(processes[1].is_visible);
  EXPECT_EQ(processes[1].used_bytes, std::nullopt) << "no process with a context uses nothing";
  EXPECT_EQ(processes[2].name, "python");
}

}  // namespace
}  // namespace fragscope::devices
