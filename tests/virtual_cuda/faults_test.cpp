// SPDX-License-Identifier: Apache-2.0
// Faults and the books of a device.
#include "virtual_cuda/device/device.hpp"
#include "virtual_cuda/device/fault_plan.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace fragscope::virtual_cuda {
namespace {

constexpr std::uint64_t kContext = 512 * kMiB;

std::vector<bool> strikes(FaultPlan& plan, FaultKind kind, int count) {
  std::vector<bool> struck;
  struck.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    struck.push_back(plan.strike(kind));
  return struck;
}

Device make_device() {
  DeviceModel model = device_presets().front();
  model.memory_bytes = 4 * kGiB;
  return Device(0, model, kContext);
}

TEST(FaultPlan, FailsTheNthCallOnce) {
  FaultPlan plan;
  plan.add({FaultKind::kMalloc, 2, false});

  EXPECT_EQ(strikes(plan, FaultKind::kMalloc, 4), (std::vector{false, true, false, false}));
}

TEST(FaultPlan, FailsFromTheNthCallOn) {
  FaultPlan plan;
  plan.add({FaultKind::kMap, 2, true});

  EXPECT_EQ(strikes(plan, FaultKind::kMap, 4), (std::vector{false, true, true, true}));
}

TEST(FaultPlan, CountsFromNowOn) {
  FaultPlan plan;
  static_cast<void>(strikes(plan, FaultKind::kCreate, 5));
  plan.add({FaultKind::kCreate, 1, false});

  EXPECT_EQ(strikes(plan, FaultKind::kCreate, 2), (std::vector{true, false}));
  EXPECT_EQ(plan.call_count(FaultKind::kCreate), 7U);
}

TEST(FaultPlan, CountsEachKindByItself) {
  FaultPlan plan;
  plan.add({FaultKind::kMalloc, 1, false});

  EXPECT_FALSE(plan.strike(FaultKind::kNvml));
  EXPECT_TRUE(plan.strike(FaultKind::kMalloc));
}

TEST(FaultPlan, TakesRulesBack) {
  FaultPlan plan;
  plan.add({FaultKind::kMalloc, 1, true});
  plan.clear(FaultKind::kMalloc);

  EXPECT_FALSE(plan.strike(FaultKind::kMalloc));
}

TEST(Device, TakesNoMoreThanIsFree) {
  Device device = make_device();

  EXPECT_TRUE(device.take(3 * kGiB));
  EXPECT_FALSE(device.take(2 * kGiB));
  EXPECT_EQ(device.free_bytes(), kGiB);
  device.give(3 * kGiB);
  EXPECT_EQ(device.free_bytes(), 4 * kGiB);
}

TEST(Device, AContextTakesMemoryOnceItExists) {
  Device device = make_device();
  EXPECT_EQ(device.process_bytes(), 0U);

  device.activate();
  device.activate();

  EXPECT_EQ(device.process_bytes(), kContext);
  EXPECT_EQ(device.free_bytes(), 4 * kGiB - kContext);
}

TEST(Device, NeighboursArriveAtTheirAttempt) {
  Device device = make_device();
  device.schedule({.device = 0, .bytes = kGiB, .attempt = 2});

  device.begin_attempt();
  EXPECT_EQ(device.neighbour_bytes(), 0U);
  device.begin_attempt();
  EXPECT_EQ(device.neighbour_bytes(), kGiB);
  EXPECT_EQ(device.free_bytes(), 3 * kGiB);
}

// Other processes may hold what this one holds too, after a driver evicted or a test asked for it.
TEST(Device, NothingIsFreeWhenNeighboursHoldTooMuch) {
  Device device = make_device();
  ASSERT_TRUE(device.take(3 * kGiB));

  device.set_neighbour_bytes(2 * kGiB);

  EXPECT_EQ(device.free_bytes(), 0U);
  EXPECT_FALSE(device.take(kPageBytes));
}

}  // namespace
}  // namespace fragscope::virtual_cuda
