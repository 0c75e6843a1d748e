// SPDX-License-Identifier: Apache-2.0
// The algorithms that run on a GPU, over the host form of the primitives, with tiles so small that
// every heap has many: all but the primitives' CUDA form is proven here.
#include "kernels/algorithm/run_scan.hpp"
#include "kernels/algorithm/window_scan.hpp"
#include "kernels/primitives/host_form.hpp"
#include "tests/kernels/heaps.hpp"
#include "tests/kernels/primitive_checks.hpp"
#include "tests/support/result_matchers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fragscope::kernels {
namespace {

using test::IsOk;

/// The host form's memory is the host's.
struct HostMemory {
  template <class T>
  [[nodiscard]] std::vector<T> put(const std::vector<T>& values) const {
    return values;
  }
  template <class T>
  [[nodiscard]] std::vector<T> get(const std::vector<T>& array) const {
    return array;
  }
};

template <class Shape>
class Tiles : public ::testing::Test {};
using Shapes = ::testing::Types<TileShape<1, 1>,
                                TileShape<1, 8>,
                                TileShape<4, 1>,
                                TileShape<4, 3>,
                                TileShape<32, 2>,
                                TileShape<8, 16>>;
TYPED_TEST_SUITE(Tiles, Shapes);

TYPED_TEST(Tiles, KeepTheOrderOfTheirItems) {
  HostForm form;
  constexpr std::uint64_t kTile = TypeParam::kTile;

  for (const std::uint64_t count : {std::uint64_t{0},
                                    std::uint64_t{1},
                                    kTile - 1,
                                    kTile,
                                    kTile + 1,
                                    5 * kTile,
                                    7 * kTile + 1}) {
    check_for_tiles<TypeParam>(form, HostMemory{}, count, test_seed() + count);
  }
}

template <class Shape>
void expect_same_as_the_cpu(const TestHeap& heap) {
  const BlockTable table = heap.table();
  const std::uint64_t groups = table.groups();
  Runs found;
  found.groups.resize(groups);
  found.histogram.resize(groups * kRunClasses);
  HostForm form;
  auto scan = RunScan<Shape, HostForm>::make(form, table.blocks.size());
  ASSERT_THAT(scan, IsOk());

  const Result<void> ran = scan->run(form,
                                     table.blocks.data(),
                                     table.blocks.size(),
                                     {table.group_begins.data(), groups},
                                     {found.groups.data(), found.histogram.data()});

  ASSERT_THAT(ran, IsOk());
  const Result<Runs> wanted = find_runs(table, true, {Device::kCpu, 1});
  ASSERT_THAT(wanted, IsOk());
  expect_same_runs(found, *wanted);
}

TYPED_TEST(Tiles, FindTheRunsThatTheCpuFinds) {
  for (const Regime& regime : regimes(std::max(TypeParam::kTile, 8))) {
    for (std::uint64_t seed = test_seed(); seed < test_seed() + 5; ++seed) {
      SCOPED_TRACE(regime.name + ", seed " + std::to_string(seed));
      expect_same_as_the_cpu<TypeParam>(random_heap(regime, seed, seed % 2 << 40));
    }
  }
}

// A grid has fewer than 2^31 tiles, and items are counted in 64 bits.
TEST(TileShape, CountsTilesOfMoreThanTwoToTheThirtyTwoBlocks) {
  using Scan = RunScan<TileShape<256, 16>, HostForm>;

  EXPECT_EQ(Scan::tiles_of(std::uint64_t{1} << 43), std::uint64_t{1} << 31);
  EXPECT_EQ(Scan::tiles_of((std::uint64_t{1} << 32) + 1), (std::uint64_t{1} << 20) + 1);
}

TEST(HostScan, KeepsTheOrderOfItsItems) {
  HostForm form;

  for (const std::uint64_t count : {0U, 1U, 2U, 1000U})
    check_scan(form, HostMemory{}, count, test_seed());
}

TEST(HostForEach, CallsOncePerIndex) {
  HostForm form;

  for (const std::uint64_t count : {0U, 1U, 1000U})
    check_for_each(form, HostMemory{}, count);
}

TEST(HostReduceSegments, JoinsWhatIsInEachSegment) {
  HostForm form;

  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1} << 40}) {
    check_reduce_segments(form, HostMemory{}, 0, 1, first);
    check_reduce_segments(form, HostMemory{}, 1000, 3, first);
    check_reduce_segments(form, HostMemory{}, 1000, 1000, first);
  }
}

TEST(WindowScan, FindsTheWindowsThatTheCpuFinds) {
  for (const Regime& regime : regimes(64)) {
    SCOPED_TRACE(regime.name + ", seed " + std::to_string(test_seed()));
    const TestHeap heap = random_heap(regime, test_seed(), 77);
    HostForm form;
    auto scan = WindowScan<HostForm>::make(form, heap.blocks.size());
    ASSERT_THAT(scan, IsOk());
    for (int power = 0; power < 44; power += 3) {
      const std::uint64_t size = (std::uint64_t{1} << power) + 1;
      const Result<Windows> wanted =
          find_windows(heap.table(), heap.segment_begins, size, {Device::kCpu, 1});
      ASSERT_THAT(wanted, IsOk());
      Windows found;
      found.segments.resize(wanted->segments.size());

      const Result<void> ran = scan->run(form,
                                         heap.blocks.data(),
                                         heap.blocks.size(),
                                         {heap.segment_begins.data(), found.segments.size()},
                                         size,
                                         found.segments.data());

      ASSERT_THAT(ran, IsOk());
      expect_same_windows(found, *wanted);
    }
  }
}

// The GPU calls it in another order; the CPU in rows of many.
TEST(FillServability, IsTheSameInAnyOrder) {
  const TestHeap heap = random_heap({"", 20000, 30, 10, 50, 5}, test_seed());
  const Runs runs = reference_runs(heap);
  const std::vector<std::uint64_t> sizes{1, 4096, std::uint64_t{1} << 35, std::uint64_t{1} << 41};
  const Result<Servability> wanted = find_servability(runs.groups, {}, sizes, {Device::kCpu});
  ASSERT_THAT(wanted, IsOk());
  std::vector<std::uint64_t> bits(wanted->bits.size());
  std::vector<std::uint32_t> failings(wanted->first_failings.size());
  const FillServability fill{runs.groups.data(),
                             nullptr,
                             runs.groups.size(),
                             sizes.data(),
                             4,
                             bits.data(),
                             failings.data()};
  HostForm form;

  ASSERT_THAT(form.for_each(kSenses * fill.words(), fill), IsOk());

  EXPECT_EQ(bits, wanted->bits);
  EXPECT_EQ(failings, wanted->first_failings);
}

}  // namespace
}  // namespace fragscope::kernels
