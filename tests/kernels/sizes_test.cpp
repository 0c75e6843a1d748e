// SPDX-License-Identifier: Apache-2.0
// Servability and windows against the plainest loops there are.
#include "kernels/scans.hpp"
#include "tests/kernels/heaps.hpp"
#include "tests/support/result_matchers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace fragscope::kernels {
namespace {

using test::FailsWith;
using test::IsOk;

/// Every window of whole blocks, of every length.
Window reference_window(const TestSegment& segment, std::uint64_t first, std::uint64_t size_bytes) {
  Window best;
  for (std::size_t begin = 0; begin < segment.size(); ++begin) {
    Window at{0, 0, first + begin};
    for (std::size_t end = begin; end < segment.size(); ++end) {
      at.bytes += segment[end].size_bytes;
      at.live_bytes += segment[end].free ? 0 : segment[end].size_bytes;
      if (at.bytes < size_bytes) continue;
      const bool better = at.live_bytes < best.live_bytes ||
                          (at.live_bytes == best.live_bytes && at.bytes < best.bytes);
      if (better) best = at;
    }
  }
  return best;
}

void expect_reference_windows(const TestHeap& heap, std::uint64_t size_bytes, unsigned threads) {
  ASSERT_THAT(check_segments(heap.table(), heap.segment_begins), IsOk());

  const Result<Windows> found =
      find_windows(heap.table(), heap.segment_begins, size_bytes, {Device::kCpu, threads});

  ASSERT_THAT(found, IsOk());
  std::uint64_t segments = 0;
  std::uint64_t first = 0;
  for (const TestGroup& group : heap.groups) {
    for (const TestSegment& segment : group) {
      ASSERT_EQ(found->segments[segments], reference_window(segment, first, size_bytes))
          << "segment " << segments << ", " << size_bytes << " bytes";
      ++segments;
      first += segment.size();
    }
  }
  ASSERT_EQ(found->segments.size(), segments);
}

TEST(Windows, AreThoseOfTheReferenceInEveryRegime) {
  for (const Regime& regime : regimes(64)) {
    SCOPED_TRACE(regime.name + ", seed " + std::to_string(test_seed()));
    const TestHeap heap = random_heap(regime, test_seed(), std::uint64_t{3} << 32);
    for (const std::uint64_t size : {std::uint64_t{1},
                                     std::uint64_t{100},
                                     std::uint64_t{1} << 20,
                                     std::uint64_t{1} << 39,
                                     std::uint64_t{1} << 42}) {
      expect_reference_windows(heap, size, 1);
    }
  }
}

TEST(Windows, AreTheSameForAnyNumberOfThreads) {
  const TestHeap heap = random_heap({"", 20000, 300, 20, 50, 10}, test_seed());

  for (const unsigned threads : {0U, 2U, 5U})
    expect_reference_windows(heap, std::uint64_t{1} << 30, threads);
}

// Fewer live bytes, then fewer bytes, then the lower address.
TEST(Windows, BreakTiesAsPinsDo) {
  const TestHeap heap = heap_of({{{{4, true}, {1, false}, {6, true}, {1, false}, {4, true}},
                                  {{2, false}, {2, false}, {2, false}},
                                  {{3, true}}}});

  const Result<Windows> windows =
      find_windows(heap.table(), heap.segment_begins, 4, {Device::kCpu});

  ASSERT_THAT(windows, IsOk());
  EXPECT_EQ(windows->segments[0], (Window{0, 4, 0}));
  EXPECT_EQ(windows->segments[1], (Window{4, 4, 5}));
  EXPECT_FALSE(windows->segments[2].exists());
}

TEST(Windows, RefuseARequestOfNoBytes) {
  EXPECT_THAT(find_windows({}, {}, 0, {Device::kCpu}), FailsWith(ErrorCode::kUsage));
}

std::uint64_t reference_served(const GroupRuns& runs, std::uint64_t spare, Sense sense) {
  if (sense == Sense::kHoles) return runs.largest_run_bytes;
  const std::uint64_t other = sense == Sense::kReleased ? runs.free_segment_bytes : runs.free_bytes;
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t given = other > most - spare ? most : other + spare;
  return std::max(given, runs.largest_run_bytes);
}

void expect_reference_servability(const std::vector<GroupRuns>& runs,
                                  const std::vector<std::uint64_t>& spare,
                                  const std::vector<std::uint64_t>& sizes,
                                  unsigned threads) {
  const Result<Servability> found = find_servability(runs, spare, sizes, {Device::kCpu, threads});

  ASSERT_THAT(found, IsOk());
  for (const Sense sense : {Sense::kHoles, Sense::kReleased, Sense::kCompacted}) {
    for (std::uint64_t group = 0; group < runs.size(); ++group) {
      const std::uint64_t most =
          reference_served(runs[group], spare.empty() ? 0 : spare[group], sense);
      std::uint32_t failing = 0;
      for (std::uint32_t size = 0; size < sizes.size(); ++size) {
        const bool served = sizes[size] <= most;
        if (served) failing = size + 1;
        const std::uint64_t word = found->bit_map(sense, size)[group / 64];
        ASSERT_EQ((word >> group % 64 & 1) != 0, served) << "group " << group << ", size " << size;
        ASSERT_EQ(found->served(sense, size, group), served) << "group " << group;
      }
      ASSERT_EQ(found->first_failing(sense, group), failing) << "group " << group;
    }
    if (runs.size() % 64 == 0) continue;
    for (std::uint32_t size = 0; size < sizes.size(); ++size)
      ASSERT_EQ(found->bit_map(sense, size).back() >> runs.size() % 64, 0U) << "behind the last";
  }
}

TEST(Servability, IsThatOfTheReferenceForAnyNumberOfGroupsAndSizes) {
  std::mt19937_64 random(test_seed());
  for (const std::uint64_t blocks : {0U, 1U, 500U, 20000U}) {
    const Runs runs = reference_runs(random_heap({"", blocks, 20, 6, 60, 10}, test_seed()));
    std::vector<std::uint64_t> spare(runs.groups.size());
    for (std::uint64_t& bytes : spare)
      bytes = random() >> (random() % 64);
    for (const std::uint64_t count : {0U, 1U, 7U, 100U}) {
      std::vector<std::uint64_t> sizes(count);
      for (std::uint64_t& size : sizes)
        size = 1 + (random() >> (10 + random() % 50));
      std::ranges::sort(sizes);
      sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
      SCOPED_TRACE(std::to_string(count) + " sizes, seed " + std::to_string(test_seed()));
      expect_reference_servability(runs.groups, spare, sizes, 1);
      expect_reference_servability(runs.groups, {}, sizes, 3);
    }
  }
}

TEST(Servability, RefusesSizesThatDoNotRise) {
  const std::vector<GroupRuns> runs(3);

  EXPECT_THAT(find_servability(runs, {}, std::vector<std::uint64_t>{5, 5}),
              FailsWith(ErrorCode::kUsage));
  EXPECT_THAT(find_servability(runs, {}, std::vector<std::uint64_t>{5, 4}),
              FailsWith(ErrorCode::kUsage));
}

TEST(Servability, RefusesSpareBytesOfOtherGroups) {
  EXPECT_THAT(find_servability(std::vector<GroupRuns>(3), std::vector<std::uint64_t>(2), {}),
              FailsWith(ErrorCode::kUsage));
}

}  // namespace
}  // namespace fragscope::kernels
