// SPDX-License-Identifier: Apache-2.0
// The scans on a GPU against the CPU, which defines the answers. Names with "Small" are what
// compute-sanitizer runs as well.
#include "kernels/run_stream.hpp"
#include "kernels/scans.hpp"
#include "tests/kernels/gpu/gpu_test.hpp"
#include "tests/kernels/heaps.hpp"
#include "tests/support/result_matchers.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace fragscope::kernels {
namespace {

using test::IsOk;

/// As in scans_cuda.cu; a changed tile changes what is tested, not whether it passes.
constexpr std::uint64_t kTileBlocks = 4096;
constexpr ScanOptions kCpu{Device::kCpu};
constexpr ScanOptions kCuda{Device::kCuda};

class CudaScans : public GpuTest {};

void expect_same_runs_on_both(const TestHeap& heap) {
  const Result<Runs> wanted = find_runs(heap.table(), true, kCpu);
  const Result<Runs> found = find_runs(heap.table(), true, kCuda);

  ASSERT_THAT(wanted, IsOk());
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->ran.device, Device::kCuda);
  expect_same_runs(*found, *wanted);
}

void expect_same_sizes_on_both(const TestHeap& heap) {
  const Result<Runs> runs = find_runs(heap.table(), false, kCpu);
  ASSERT_THAT(runs, IsOk());
  std::vector<std::uint64_t> sizes;
  for (int power = 0; power < 44; ++power)
    sizes.push_back(std::uint64_t{1} << power);
  const std::vector<std::uint64_t> spare(runs->groups.size(), std::uint64_t{1} << 30);
  for (const std::vector<std::uint64_t>& given : {spare, std::vector<std::uint64_t>{}}) {
    const Result<Servability> wanted = find_servability(runs->groups, given, sizes, kCpu);
    const Result<Servability> found = find_servability(runs->groups, given, sizes, kCuda);
    ASSERT_THAT(wanted, IsOk());
    ASSERT_THAT(found, IsOk());
    ASSERT_EQ(found->first_failings, wanted->first_failings);
    ASSERT_EQ(found->bits, wanted->bits);
  }
  for (const int power : {0, 9, 20, 40}) {
    const std::uint64_t size = std::uint64_t{1} << power;
    const Result<Windows> wanted = find_windows(heap.table(), heap.segment_begins, size, kCpu);
    const Result<Windows> found = find_windows(heap.table(), heap.segment_begins, size, kCuda);
    ASSERT_THAT(wanted, IsOk());
    ASSERT_THAT(found, IsOk());
    expect_same_windows(*found, *wanted);
  }
}

TEST_F(CudaScans, SmallHeapsAsOnTheCpu) {
  for (const Regime& regime : regimes(64)) {
    SCOPED_TRACE(regime.name + ", seed " + std::to_string(test_seed()));
    const TestHeap heap = random_heap(regime, test_seed());
    expect_same_runs_on_both(heap);
    expect_same_sizes_on_both(heap);
  }
}

TEST_F(CudaScans, SmallStreamsAsOneScan) {
  const TestHeap heap = random_heap({"", 9000, 90, 20, 50, 10}, test_seed());
  HeapSource source(heap);

  const Result<DeviceChoice> ran = stream_runs({1000, 100}, 0, source.fill(), source.take(), kCuda);

  ASSERT_THAT(ran, IsOk());
  EXPECT_EQ(ran->device, Device::kCuda);
  EXPECT_GT(source.chunks(), 8U);
  EXPECT_EQ(source.taken(), reference_runs(heap).groups);
}

TEST_F(CudaScans, EveryRegimeAsOnTheCpu) {
  for (const Regime& regime : regimes(kTileBlocks)) {
    for (std::uint64_t seed = test_seed(); seed < test_seed() + 3; ++seed) {
      SCOPED_TRACE(regime.name + ", seed " + std::to_string(seed));
      const TestHeap heap = random_heap(regime, seed, seed % 2 << 40);
      expect_same_runs_on_both(heap);
      expect_same_sizes_on_both(heap);
    }
  }
}

// Enough tiles that the scan over them has many tiles of its own, and that all of them are in
// flight.
TEST_F(CudaScans, LargeHeapsAsOnTheCpu) {
  for (const std::uint64_t group_blocks :
       {std::uint64_t{20}, std::uint64_t{5000}, ~std::uint64_t{0}}) {
    SCOPED_TRACE("groups of " + std::to_string(group_blocks));
    const TestHeap heap = random_heap({"", 20'000'000, group_blocks, 100, 50, 1}, test_seed());
    expect_same_runs_on_both(heap);
  }
}

TEST_F(CudaScans, AutoSaysWhichRanAndWhy) {
  const Result<DeviceChoice> choice = choose_device(Device::kAuto, std::uint64_t{1} << 34);

  ASSERT_THAT(choice, IsOk());
  EXPECT_THAT(choice->reason, ::testing::HasSubstr("measured here: the CPU scans "));
}

}  // namespace
}  // namespace fragscope::kernels
