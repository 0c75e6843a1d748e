// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/device/simulated_device.hpp"

#include "allocator/policy/size_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>

namespace fragscope::policy {
namespace {

constexpr Address kStart = Address{1} << 45;
using Fault = SimulatedDevice::Fault;

TEST(SimulatedDevice, PlacesAtTheLowestMultipleOfTwoMebibytesThatFits) {
  SimulatedDevice device(kGiB);
  EXPECT_EQ(device.allocate(3 * kMiB), kStart);
  EXPECT_EQ(device.allocate(1), kStart + 4 * kMiB);
  device.free(kStart, 3 * kMiB);
  EXPECT_EQ(device.allocate(5 * kMiB), kStart + 6 * kMiB);
  EXPECT_EQ(device.allocate(4 * kMiB), kStart);
}

TEST(SimulatedDevice, PlacesAsIfItLookedFromTheLowestAddressEachTime) {
  SimulatedDevice device(std::uint64_t{1} << 40);
  std::map<Address, std::uint64_t> ranges;
  const auto lowest = [&ranges](std::uint64_t size) {
    Address at = kStart;
    for (const auto& [start, length] : ranges) {
      if (start >= at && start - at >= size) break;
      at = std::max(at, round_up(start + length, kRoundLarge));
    }
    return at;
  };
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    if (ranges.size() > 200 || (!ranges.empty() && random() % 3 == 0)) {
      const auto range = std::next(ranges.begin(), static_cast<int>(random() % ranges.size()));
      device.free(range->first, range->second);
      ranges.erase(range);
      continue;
    }
    const std::uint64_t size = (1 + random() % 40) * kMiB + random() % 3;
    const Address expected = lowest(size);
    ASSERT_EQ(device.allocate(size), expected) << "step " << i;
    ranges.emplace(expected, size);
  }
}

TEST(SimulatedDevice, CountsSegmentsInPagesOfTwoMebibytes) {
  SimulatedDevice device(10 * kMiB);
  ASSERT_TRUE(device.allocate(1));
  EXPECT_EQ(device.used_bytes(), 2 * kMiB);
  EXPECT_EQ(device.capacity().free_bytes, 8 * kMiB);
  EXPECT_FALSE(device.allocate(8 * kMiB + 1));
  EXPECT_TRUE(device.allocate(8 * kMiB));
}

TEST(SimulatedDevice, ReservationsTakeAddressesButNoMemory) {
  SimulatedDevice device(10 * kMiB);
  EXPECT_EQ(device.reserve(20 * kMiB), kStart);
  EXPECT_EQ(device.used_bytes(), 0U);
  EXPECT_EQ(device.allocate(1), kStart + 20 * kMiB);
  device.release(kStart, 20 * kMiB);
  EXPECT_EQ(device.allocate(1), kStart);
}

TEST(SimulatedDevice, HasNoMoreAddressesThanItSays) {
  SimulatedDevice device(10 * kMiB);
  EXPECT_FALSE(device.reserve(kUnlimited - 2 * kMiB + 1));
  EXPECT_FALSE(device.reserve(SimulatedDevice::kAddressSpace + 2 * kMiB));
  ASSERT_TRUE(device.reserve(SimulatedDevice::kAddressSpace - 2 * kMiB));
  EXPECT_FALSE(device.allocate(4 * kMiB));
  EXPECT_EQ(device.used_bytes(), 0U);
  EXPECT_TRUE(device.allocate(2 * kMiB));
}

TEST(SimulatedDevice, MapsAllPagesOrNone) {
  SimulatedDevice device(50 * kMiB);
  ASSERT_TRUE(device.reserve(100 * kMiB));
  EXPECT_FALSE(device.map(kStart, 60 * kMiB, 20 * kMiB));
  EXPECT_EQ(device.used_bytes(), 0U);
  EXPECT_TRUE(device.map(kStart, 40 * kMiB, 20 * kMiB));
  device.unmap(kStart, 20 * kMiB);
  EXPECT_EQ(device.used_bytes(), 20 * kMiB);
}

TEST(SimulatedDevice, FailsTheNthCallOnce) {
  SimulatedDevice device(kGiB);
  device.fail(Fault::kAllocate, 2, false);
  EXPECT_TRUE(device.allocate(1));
  EXPECT_FALSE(device.allocate(1));
  EXPECT_TRUE(device.allocate(1));
}

TEST(SimulatedDevice, FailsFromTheNthCallOnUntilItIsCleared) {
  SimulatedDevice device(kGiB);
  device.fail(Fault::kAllocate, 2, true);
  EXPECT_TRUE(device.allocate(1));
  EXPECT_FALSE(device.allocate(1));
  EXPECT_FALSE(device.allocate(1));
  device.clear_faults();
  EXPECT_TRUE(device.allocate(1));
}

TEST(SimulatedDevice, CountsEachPageAsACall) {
  SimulatedDevice device(kGiB);
  ASSERT_TRUE(device.reserve(100 * kMiB));
  device.fail(Fault::kPage, 3, false);
  EXPECT_FALSE(device.map(kStart, 60 * kMiB, 20 * kMiB));
  EXPECT_EQ(device.used_bytes(), 0U);
  EXPECT_TRUE(device.map(kStart, 60 * kMiB, 20 * kMiB));
}

TEST(SimulatedDevice, KeepsFaultsOfBothKindsApart) {
  SimulatedDevice device(kGiB);
  ASSERT_TRUE(device.reserve(100 * kMiB));
  device.fail(Fault::kPage, 1, false);
  EXPECT_TRUE(device.allocate(1));
  EXPECT_FALSE(device.map(kStart, 20 * kMiB, 20 * kMiB));
}

TEST(SimulatedDevice, LeavesTheMemoryOfNeighboursAlone) {
  SimulatedDevice device(10 * kMiB);
  device.set_outside_bytes(7 * kMiB);
  EXPECT_EQ(device.capacity().free_bytes, 3 * kMiB);
  EXPECT_EQ(device.capacity().total_bytes, 10 * kMiB);
  EXPECT_FALSE(device.allocate(4 * kMiB));
  EXPECT_TRUE(device.allocate(2 * kMiB));
}

TEST(SimulatedDevice, KeepsWhatItHasWhereNeighboursTakeMoreThanThereIs) {
  SimulatedDevice device(10 * kMiB);
  ASSERT_TRUE(device.allocate(4 * kMiB));
  for (const std::uint64_t outside : {8 * kMiB, kUnlimited}) {
    device.set_outside_bytes(outside);
    EXPECT_EQ(device.capacity().free_bytes, 0U);
    EXPECT_EQ(device.used_bytes(), 4 * kMiB);
  }
}

TEST(SimulatedDevice, WaitsForItsStreamsBeforeASegmentGoes) {
  SimulatedStreams streams;
  SimulatedDevice device(10 * kMiB, kStart, &streams);
  ASSERT_TRUE(device.allocate(1));
  streams.hold(1);
  const EventId event = streams.record(1);
  EXPECT_FALSE(streams.is_done(event));
  device.free(kStart, 1);
  EXPECT_TRUE(streams.is_done(event));
}

}  // namespace
}  // namespace fragscope::policy
