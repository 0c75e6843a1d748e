// SPDX-License-Identifier: Apache-2.0
// Memory in one piece and the pool behind cudaMallocAsync.
#include "virtual_cuda/core/machine.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace fragscope::virtual_cuda {
namespace {

class PoolTest : public testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.devices.push_back(device_presets().front());
    options.devices[0].memory_bytes = 64 * kMiB;
    machine_ = std::make_unique<Machine>(options, nullptr);
    ASSERT_EQ(machine_->status(), Status::kSuccess);
  }

  AsyncPool& pool() { return machine_->pool(0); }
  std::uint64_t used() { return machine_->device(0).used_bytes(); }
  std::uint64_t allocate(std::uint64_t size_bytes) {
    std::uint64_t begin = 0;
    EXPECT_EQ(pool().allocate(size_bytes, &begin), Status::kSuccess);
    return begin;
  }

  std::unique_ptr<Machine> machine_;
};

TEST_F(PoolTest, KeepsWhatIsFreedUpToItsThreshold) {
  pool().set_threshold_bytes(kPageBytes);
  const std::uint64_t first = allocate(kPageBytes);
  const std::uint64_t second = allocate(4 * kPageBytes);
  ASSERT_EQ(pool().release(first), Status::kSuccess);
  ASSERT_EQ(pool().release(second), Status::kSuccess);
  EXPECT_EQ(used(), 5 * kPageBytes);

  pool().trim_to_threshold();

  EXPECT_EQ(used(), kPageBytes);
  EXPECT_EQ(pool().reserved().current, kPageBytes);
  EXPECT_EQ(pool().reserved().high, 5 * kPageBytes);
}

TEST_F(PoolTest, HandsOutWhatWasFreed) {
  const std::uint64_t first = allocate(kPageBytes - 5);
  ASSERT_EQ(pool().release(first), Status::kSuccess);

  EXPECT_EQ(allocate(kPageBytes - 1000), first);
}

TEST_F(PoolTest, CountsWhatWasAskedForInItsUnits) {
  const std::uint64_t begin = allocate(1000);
  EXPECT_EQ(pool().used().current, 1024U);

  ASSERT_EQ(pool().release(begin), Status::kSuccess);
  EXPECT_EQ(pool().used().current, 0U);
  EXPECT_EQ(pool().used().high, 1024U);
  EXPECT_EQ(pool().release(begin), Status::kInvalidValue);
}

TEST_F(PoolTest, GivesUpWhatItKeepsBeforeItFails) {
  pool().set_threshold_bytes(kGiB);
  ASSERT_EQ(pool().release(allocate(40 * kMiB)), Status::kSuccess);

  allocate(60 * kMiB);

  std::uint64_t begin = 0;
  EXPECT_EQ(pool().allocate(60 * kMiB, &begin), Status::kOutOfMemory);
}

TEST_F(PoolTest, AddressesRepeat) {
  MemoryEntry wanted;
  wanted.range.size_bytes = 3 * kPageBytes;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  Allocations& allocations = machine_->allocations();
  Device& device = machine_->device(0);

  ASSERT_EQ(allocations.allocate(device, wanted, &first), Status::kSuccess);
  EXPECT_EQ(first, kFirstWindow);
  ASSERT_EQ(allocations.release(device, *machine_->memory().find_begin(first)), Status::kSuccess);
  ASSERT_EQ(allocations.allocate(device, wanted, &second), Status::kSuccess);
  EXPECT_EQ(second, first);
}

TEST_F(PoolTest, AFailedAllocationLeavesNothingBehind) {
  MemoryEntry wanted;
  wanted.range.size_bytes = 65 * kMiB;
  std::uint64_t begin = 0;
  Device& device = machine_->device(0);

  EXPECT_EQ(machine_->allocations().allocate(device, wanted, &begin), Status::kOutOfMemory);

  EXPECT_EQ(device.used_bytes(), 0U);
  EXPECT_EQ(device.addresses().reserved_bytes(), 0U);
}

TEST_F(PoolTest, RegistersHostMemoryOnce) {
  char bytes[64] = {};
  Allocations& allocations = machine_->allocations();
  MemoryEntry entry;
  entry.range = {reinterpret_cast<std::uint64_t>(bytes), sizeof(bytes)};
  ASSERT_EQ(allocations.register_host(entry), Status::kSuccess);

  EXPECT_EQ(allocations.register_host(entry), Status::kHostMemoryAlreadyRegistered);
  EXPECT_EQ(allocations.unregister_host(entry.range.begin + 1), Status::kHostMemoryNotRegistered);
  EXPECT_EQ(allocations.unregister_host(entry.range.begin), Status::kSuccess);
}

TEST(VisibleDevices, AreReadAsTheDriverReadsThem) {
  Options options;
  options.devices.assign(4, device_presets().front());
  const std::pair<const char*, std::vector<int>> cases[] = {
      {nullptr, {0, 1, 2, 3}},
      {"2,0", {2, 0}},
      {"1,9,2", {1}},
      {"", {}},
      {"-1", {}},
      {"3,x", {3}},
      {"2gpu, 0", {2, 0}},
      {"1,2,1", {}},
      {"GPU-f7a65c0e-0000-8000-8000-000000000003,0", {3, 0}},
      {"0,GPU-f7a65c0e,1", {0}},
      {"1,GPU-nobody", {1}},
  };
  for (const auto& [text, wanted] : cases) {
    Machine machine(options, text);
    std::vector<int> found;
    found.reserve(wanted.size());
    for (int i = 0; i < machine.visible_count(); ++i)
      found.push_back(machine.visible(i).index());
    EXPECT_EQ(found, wanted) << (text == nullptr ? "unset" : text);
  }
}

}  // namespace
}  // namespace fragscope::virtual_cuda
