// SPDX-License-Identifier: Apache-2.0
// Mappings over real host pages, so access rights are those a program would meet.
#include "virtual_cuda/core/machine.hpp"
#include "virtual_cuda/memory/host_pages.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include <sys/mman.h>

namespace fragscope::virtual_cuda {
namespace {

class VirtualMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.devices.push_back(device_presets().front());
    options.devices[0].memory_bytes = kGiB;
    machine_ = std::make_unique<Machine>(options, nullptr);
    ASSERT_EQ(machine_->status(), Status::kSuccess);
  }

  Device& device() { return machine_->device(0); }
  VirtualMemory& memory() { return machine_->virtual_memory(); }
  PageHandle create(std::uint64_t size_bytes) {
    PageHandle handle = 0;
    EXPECT_EQ(memory().create(&device(), {}, size_bytes, &handle), Status::kSuccess);
    return handle;
  }
  std::uint64_t reserve(std::uint64_t size_bytes) {
    std::uint64_t begin = 0;
    EXPECT_EQ(memory().reserve(device(), {size_bytes, 0}, &begin), Status::kSuccess);
    return begin;
  }
  Status map(std::uint64_t begin, std::uint64_t size_bytes, PageHandle handle) {
    return memory().map({{begin, size_bytes}, 0, handle});
  }

  static char* pointer(std::uint64_t address) {
    return reinterpret_cast<char*>(address);  // NOLINT(performance-no-int-to-ptr)
  }

  std::unique_ptr<Machine> machine_;
};

TEST_F(VirtualMemoryTest, PagesCountFromCreateToTheLastUse) {
  const PageHandle handle = create(2 * kPageBytes);
  const std::uint64_t begin = reserve(8 * kPageBytes);
  EXPECT_EQ(device().used_bytes(), 2 * kPageBytes);
  ASSERT_EQ(map(begin, 2 * kPageBytes, handle), Status::kSuccess);

  ASSERT_EQ(memory().release(handle), Status::kSuccess);
  EXPECT_EQ(device().used_bytes(), 2 * kPageBytes);
  ASSERT_EQ(memory().unmap({begin, 2 * kPageBytes}), Status::kSuccess);
  EXPECT_EQ(device().used_bytes(), 0U);
}

TEST_F(VirtualMemoryTest, AddressesAreCountedApartFromPages) {
  reserve(8 * kGiB);

  EXPECT_EQ(device().used_bytes(), 0U);
}

TEST_F(VirtualMemoryTest, MappedPagesAreReadableOnceAccessIsSet) {
  const std::uint64_t begin = reserve(2 * kPageBytes);
  ASSERT_EQ(map(begin, kPageBytes, create(kPageBytes)), Status::kSuccess);
  ASSERT_EQ(memory().set_access({begin, kPageBytes}), Status::kSuccess);
  std::memset(pointer(begin), 7, kPageBytes);

  // What is unmapped and mapped again is other memory.
  ASSERT_EQ(memory().unmap({begin, kPageBytes}), Status::kSuccess);
  ASSERT_EQ(map(begin, kPageBytes, create(kPageBytes)), Status::kSuccess);
  ASSERT_EQ(memory().set_access({begin, kPageBytes}), Status::kSuccess);
  EXPECT_EQ(*pointer(begin), 0);
}

using VirtualMemoryDeathTest = VirtualMemoryTest;

TEST_F(VirtualMemoryDeathTest, MappedPagesAreUnreadableWithoutAccess) {
  const std::uint64_t begin = reserve(kPageBytes);
  ASSERT_EQ(map(begin, kPageBytes, create(kPageBytes)), Status::kSuccess);

  EXPECT_DEATH(*pointer(begin) = 1, "");
}

TEST_F(VirtualMemoryTest, AccessNeedsAMappingEverywhere) {
  const std::uint64_t begin = reserve(4 * kPageBytes);
  ASSERT_EQ(map(begin, kPageBytes, create(kPageBytes)), Status::kSuccess);

  EXPECT_EQ(memory().set_access({begin, 2 * kPageBytes}), Status::kInvalidValue);
}

TEST_F(VirtualMemoryTest, MapsOnlyInsideAReservation) {
  const PageHandle handle = create(2 * kPageBytes);
  const std::uint64_t begin = reserve(2 * kPageBytes);

  EXPECT_EQ(map(begin + kPageBytes, 2 * kPageBytes, handle), Status::kInvalidValue);
  EXPECT_EQ(map(begin - kPageBytes, kPageBytes, handle), Status::kInvalidValue);
  EXPECT_EQ(map(begin + 1, kPageBytes, handle), Status::kInvalidValue);
  EXPECT_EQ(map(begin, 4 * kPageBytes, handle), Status::kInvalidValue);
}

TEST_F(VirtualMemoryTest, TwoMappingsCannotOverlap) {
  const std::uint64_t begin = reserve(2 * kPageBytes);
  ASSERT_EQ(map(begin, 2 * kPageBytes, create(2 * kPageBytes)), Status::kSuccess);

  EXPECT_EQ(map(begin + kPageBytes, kPageBytes, create(kPageBytes)), Status::kInvalidValue);
}

TEST_F(VirtualMemoryTest, UnmapsWholeMappingsOnly) {
  const std::uint64_t begin = reserve(4 * kPageBytes);
  ASSERT_EQ(map(begin, 2 * kPageBytes, create(2 * kPageBytes)), Status::kSuccess);

  EXPECT_EQ(memory().unmap({begin, kPageBytes}), Status::kInvalidValue);
  EXPECT_EQ(memory().unmap({begin + kPageBytes, kPageBytes}), Status::kInvalidValue);
}

TEST_F(VirtualMemoryTest, AddressesWithMappingsStay) {
  const std::uint64_t begin = reserve(2 * kPageBytes);
  ASSERT_EQ(map(begin, kPageBytes, create(kPageBytes)), Status::kSuccess);

  EXPECT_EQ(memory().free_addresses({begin, 2 * kPageBytes}), Status::kInvalidValue);
  ASSERT_EQ(memory().unmap({begin, kPageBytes}), Status::kSuccess);
  EXPECT_EQ(memory().free_addresses({begin, kPageBytes}), Status::kInvalidValue);
  EXPECT_EQ(memory().free_addresses({begin, 2 * kPageBytes}), Status::kSuccess);
}

TEST_F(VirtualMemoryTest, AHandleIsReleasedAsOftenAsItWasGot) {
  const PageHandle handle = create(kPageBytes);
  const std::uint64_t begin = reserve(kPageBytes);
  ASSERT_EQ(map(begin, kPageBytes, handle), Status::kSuccess);
  PageHandle again = 0;
  ASSERT_EQ(memory().retain(begin + 5, &again), Status::kSuccess);

  EXPECT_EQ(again, handle);
  EXPECT_EQ(memory().release(handle), Status::kSuccess);
  EXPECT_EQ(memory().release(handle), Status::kSuccess);
  EXPECT_EQ(memory().release(handle), Status::kInvalidValue);
}

TEST_F(VirtualMemoryTest, EveryStepCanFail) {
  PageHandle handle = 0;
  std::uint64_t begin = 0;
  for (const FaultKind kind :
       {FaultKind::kCreate, FaultKind::kReserve, FaultKind::kMap, FaultKind::kAccess}) {
    machine_->faults().add({kind, 1, false});
  }

  EXPECT_EQ(memory().create(&device(), {}, kPageBytes, &handle), Status::kOutOfMemory);
  EXPECT_EQ(memory().reserve(device(), {kPageBytes, 0}, &begin), Status::kOutOfMemory);
  handle = create(kPageBytes);
  begin = reserve(kPageBytes);
  EXPECT_EQ(map(begin, kPageBytes, handle), Status::kOutOfMemory);
  ASSERT_EQ(map(begin, kPageBytes, handle), Status::kSuccess);
  EXPECT_EQ(memory().set_access({begin, kPageBytes}), Status::kUnknown);
  EXPECT_EQ(device().used_bytes(), kPageBytes);
}

TEST_F(VirtualMemoryTest, CapacityEndsWhatCanBeCreated) {
  PageHandle handle = 0;
  create(kGiB - kPageBytes);

  EXPECT_EQ(memory().create(&device(), {}, 2 * kPageBytes, &handle), Status::kOutOfMemory);
}

// How many of a range's pages the kernel keeps.
std::size_t resident_pages(std::uint64_t begin, std::uint64_t size_bytes) {
  std::vector<unsigned char> pages(size_bytes / 4096);
  void* const address = reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
  EXPECT_EQ(mincore(address, size_bytes, pages.data()), 0);
  std::size_t count = 0;
  for (const unsigned char page : pages)
    count += page & 1U;
  return count;
}

class HostPagesTest : public VirtualMemoryTest {
 protected:
  std::uint64_t allocate(std::uint64_t size_bytes) {
    MemoryEntry wanted;
    wanted.range.size_bytes = size_bytes;
    std::uint64_t begin = 0;
    EXPECT_EQ(machine_->allocations().allocate(device(), wanted, &begin), Status::kSuccess);
    return begin;
  }
};

TEST_F(HostPagesTest, MemoryCostsNothingUntilItIsTouched) {
  const std::uint64_t begin = allocate(512 * kMiB);

  EXPECT_EQ(resident_pages(begin, 512 * kMiB), 0U);
  *pointer(begin + 5000) = 1;
  EXPECT_LE(resident_pages(begin, 512 * kMiB), 512U);  // One huge page at most.
}

TEST_F(HostPagesTest, ACopyTakesOnlyWhatWasWritten) {
  const std::uint64_t from = allocate(64 * kMiB);
  const std::uint64_t to = allocate(64 * kMiB);
  ASSERT_EQ(madvise(pointer(from), 64 * kMiB, MADV_NOHUGEPAGE), 0);
  ASSERT_EQ(madvise(pointer(to), 64 * kMiB, MADV_NOHUGEPAGE), 0);
  *pointer(from + 10 * kMiB + 1) = 42;
  *pointer(to + 20 * kMiB) = 13;

  host_pages::copy(pointer(to), pointer(from), 64 * kMiB);

  EXPECT_EQ(resident_pages(to, 64 * kMiB), 1U);
  EXPECT_EQ(*pointer(to + 10 * kMiB + 1), 42);
  EXPECT_EQ(*pointer(to + 20 * kMiB), 0);
}

// Source and destination rarely lie alike on their pages.
TEST_F(HostPagesTest, ACopyAtOddOffsetsMovesEveryByte) {
  const std::uint64_t from = allocate(16 * kMiB);
  const std::uint64_t to = allocate(16 * kMiB);
  constexpr std::uint64_t kSize = 9 * kMiB + 777;
  for (std::uint64_t i = 0; i < kSize; i += 300 * kKiB) {
    std::memset(pointer(from + 123 + i), int(1 + i % 200), 50 * kKiB);
  }
  std::memset(pointer(to), 255, 16 * kMiB);

  host_pages::copy(pointer(to + 4567), pointer(from + 123), kSize);

  EXPECT_EQ(std::memcmp(pointer(to + 4567), pointer(from + 123), kSize), 0);
  EXPECT_EQ(pointer(to + 4566)[0], '\xff');
  EXPECT_EQ(pointer(to + 4567 + kSize)[0], '\xff');
}

TEST_F(HostPagesTest, FillingWithZeroGivesPagesBack) {
  const std::uint64_t begin = allocate(16 * kMiB);
  std::memset(pointer(begin), 1, 16 * kMiB);

  host_pages::fill(pointer(begin + 100), 0, 16 * kMiB - 200);

  EXPECT_EQ(pointer(begin + 99)[0], 1);
  EXPECT_EQ(pointer(begin + 100)[0], 0);
  EXPECT_EQ(pointer(begin + 16 * kMiB - 101)[0], 0);
  EXPECT_EQ(pointer(begin + 16 * kMiB - 100)[0], 1);
  EXPECT_LE(resident_pages(begin, 16 * kMiB), 2U);
}

}  // namespace
}  // namespace fragscope::virtual_cuda
