// SPDX-License-Identifier: Apache-2.0
// The text of `fragscope devices` where it depends on what the machine of the test cannot be.
#include "analyzer/report/devices/devices_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fragscope::devices {
namespace {

using testing::HasSubstr;
using testing::Not;

Inventory with_process(const DeviceProcess& process) {
  Inventory inventory;
  inventory.ordinals = OrdinalSource::kDriver;
  InventoryDevice& device = inventory.devices.emplace_back();
  device.uuid = "GPU-aa";
  device.host_index = 3;
  device.cuda_ordinal = 0;
  device.used_bytes = std::uint64_t{5} << 30;
  device.is_memory_from_nvml = true;
  device.processes = {process};
  return inventory;
}

std::string text_of(const Inventory& inventory) {
  return report::devices_text(inventory, false, report::Paint(false));
}

TEST(DevicesText, AContainerSeesNotEveryProcess) {
  Inventory inventory = with_process({77, kCompute, std::uint64_t{2} << 30, std::nullopt, false});
  EXPECT_THAT(text_of(inventory), HasSubstr("gone, or hidden from this user"));

  inventory.is_host_namespace = false;
  EXPECT_THAT(text_of(inventory), HasSubstr("not visible in this namespace"));
  EXPECT_THAT(text_of(inventory), HasSubstr("can be listed under another number"));
}

TEST(DevicesText, WhatNoListedProcessUsesIsSaid) {
  EXPECT_THAT(text_of(with_process({77, kCompute, std::uint64_t{2} << 30, "a", true})),
              HasSubstr("no process listed  3.00 GiB"));
  EXPECT_THAT(text_of(with_process({77, kCompute, std::nullopt, "a", true})),
              Not(HasSubstr("no process listed")));
}

TEST(DevicesText, AProcessMayDoSeveralThings) {
  const std::uint8_t both = kCompute | kGraphics;
  EXPECT_THAT(text_of(with_process({77, both, 5, "a", true})), HasSubstr("compute+graphics"));
}

TEST(DevicesText, AMigDeviceIsAPartOfItsGpu) {
  Inventory inventory = with_process({77, kCompute, 5, "a", true});
  inventory.devices[0].mig_parent = "GPU-bb";
  EXPECT_THAT(text_of(inventory), HasSubstr("part 3, CUDA 0\n  a MIG device of GPU-bb\n"));
}

TEST(DevicesText, NamesCannotSteerATerminal) {
  EXPECT_THAT(text_of(with_process({77, kCompute, 5, "\x1b[31mred", true})),
              Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace fragscope::devices
