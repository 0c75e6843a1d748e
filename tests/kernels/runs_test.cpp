// SPDX-License-Identifier: Apache-2.0
#include "kernels/algorithm/open_run.hpp"
#include "kernels/cpu/scans_cpu.hpp"
#include "kernels/cpu/word_runs.hpp"
#include "kernels/scans.hpp"
#include "tests/kernels/heaps.hpp"
#include "tests/support/result_matchers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace fragscope::kernels {
namespace {

using test::IsOk;

/// As in runs_cpu.cpp; a changed tile changes what is tested, not whether it passes.
constexpr std::uint64_t kTileBlocks = std::uint64_t{1} << 16;

void expect_reference_runs(const TestHeap& heap, unsigned threads) {
  ASSERT_THAT(check_table(heap.table()), IsOk());

  const Result<Runs> found = find_runs(heap.table(), true, {Device::kCpu, threads});

  ASSERT_THAT(found, IsOk());
  expect_same_runs(*found, reference_runs(heap));
}

TEST(RunsOnTheCpu, AreThoseOfTheReferenceInEveryRegime) {
  for (const std::uint64_t tile : {std::uint64_t{64}, kTileBlocks}) {
    for (const Regime& regime : regimes(tile)) {
      SCOPED_TRACE(regime.name + ", seed " + std::to_string(test_seed()));
      expect_reference_runs(random_heap(regime, test_seed()), 1);
    }
  }
}

TEST(RunsOnTheCpu, AreTheSameForAnyNumberOfThreads) {
  for (const std::uint64_t group_blocks : {std::uint64_t{3}, kTileBlocks, 3 * kTileBlocks}) {
    const TestHeap heap =
        random_heap({"", 5 * kTileBlocks + 1, group_blocks, 500, 60, 3}, test_seed());
    for (const unsigned threads : {0U, 2U, 3U, 64U}) {
      SCOPED_TRACE(std::to_string(threads) + " threads, seed " + std::to_string(test_seed()));
      expect_reference_runs(heap, threads);
    }
  }
}

// Sums over several groups go round, again and again; no run does.
TEST(RunsOnTheCpu, MayBeAsLargeAsAGroupMayBe) {
  constexpr std::uint64_t kMost = PackedBlock::kSizeMask;
  std::vector<TestGroup> groups;
  for (std::uint64_t i = 0; i < 100; ++i) {
    groups.push_back({{{kMost, true}}});
    groups.push_back({{{kMost / 2, true}, {1, false}, {kMost / 2, true}}});
    groups.push_back({{{i + 1, false}, {kMost - i - 1, true}}});
    groups.push_back({{{kMost / 2, true}, {kMost / 2 - i, true}}, {{i + 1, true}}});
  }

  expect_reference_runs(heap_of(std::move(groups)), 2);
}

TEST(RunsOnTheCpu, CountBlocksFromWhereTheTableBegins) {
  const Regime regime{"", 3000, 200, 20, 50, 10};
  const std::uint64_t far = (std::uint64_t{1} << 33) + 5;

  expect_reference_runs(random_heap(regime, test_seed(), far), 2);
}

TEST(RunsOnTheCpu, OfAPartAreThatPartOfTheWhole) {
  const TestHeap heap = random_heap({"", 3000, 50, 9, 50, 10}, test_seed());
  const Result<Runs> whole = find_runs(heap.table(), false, {Device::kCpu});
  const std::uint64_t groups = heap.table().groups();

  const Result<Runs> part =
      find_runs(heap.table().part(groups / 3, groups / 2), false, {Device::kCpu});

  ASSERT_THAT(part, IsOk());
  EXPECT_THAT(part->groups,
              ::testing::ElementsAreArray(whole->groups.begin() + static_cast<long>(groups / 3),
                                          whole->groups.begin() + static_cast<long>(groups / 2)));
}

// More than 2^31 blocks, without the 16 GiB they would take: pages that were never written are all
// the same page. Their blocks are live and empty, which a checked table has not, but the fold does
// not mind.
TEST(RunsOnTheCpu, ReachBlocksBeyondTwoToTheThirtyOne) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow of 16 GiB does not fit, or takes half a minute";
#endif
  const std::uint64_t count = (std::uint64_t{1} << 31) + 1000;
  const std::size_t bytes = count * sizeof(PackedBlock);
  void* const memory = ::mmap(
      nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no 16 GiB of address space here";
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  const std::unique_ptr<void, std::function<void(void*)>> unmap(
      memory, [&](void* at) { ::munmap(at, bytes); });
  auto* const blocks = static_cast<PackedBlock*>(memory);
  const std::vector<std::uint64_t> begins{0, 10, count - 500, count};
  for (const std::uint64_t begin : {begins[0], begins[1], begins[2]})
    blocks[begin] = PackedBlock::live(1).as_first();
  blocks[count - 501] = PackedBlock::free(3);
  blocks[count - 500] = PackedBlock::free(7).as_first();
  blocks[count - 1] = PackedBlock::free(5);

  const Result<Runs> runs = find_runs({{blocks, count}, begins}, false, {Device::kCpu});

  ASSERT_THAT(runs, IsOk());
  EXPECT_EQ(runs->groups[0], GroupRuns{});
  EXPECT_EQ(runs->groups[1], (GroupRuns{3, 3, 0, 1}));
  EXPECT_EQ(runs->groups[2], (GroupRuns{12, 7, 0, 2}));
}

struct PlainRuns {
  GroupRuns ended;
  std::uint64_t ends = 0;  ///< Bit i: one ends in front of block i.
  std::uint64_t open_bytes = 0;
  bool open_from_segment_begin = false;
};

/// Nothing is open in front of the blocks.
PlainRuns plain_runs(std::span<const PackedBlock> blocks) {
  PlainRuns found;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (is_border(blocks[i]) && found.open_bytes != 0) {
      found.ended.add_run(found.open_bytes, found.open_from_segment_begin && blocks[i].is_first());
      found.ends |= std::uint64_t{1} << i;
      found.open_bytes = 0;
    }
    if (found.open_bytes == 0) {
      found.open_from_segment_begin = blocks[i].is_free() && blocks[i].is_first();
    }
    found.open_bytes += blocks[i].free_bytes();
  }
  return found;
}

// Words are taken by the fastest code that the processor runs; here by all of it, as by a plain
// loop.
TEST(WordSteps, FindTheRunsOfAPlainLoopOnEveryProcessor) {
  const TestHeap heap = random_heap({"", 6400, 300, 20, 50, 0}, test_seed());

  for (const WordSteps& steps : word_steps()) {
    for (std::size_t at = 0; at + kWordBlocks <= heap.blocks.size(); at += 29) {
      const auto count = static_cast<unsigned>(at % kWordBlocks + 1);
      std::array<PackedBlock, kWordBlocks> blocks{};
      std::copy_n(heap.blocks.begin() + static_cast<std::ptrdiff_t>(at), count, blocks.begin());
      RunState state{.free_bytes = at * 1000003};
      std::vector<std::uint64_t> bounds(1 + kWordBlocks + 8);
      bounds[0] = state.free_bytes;
      const WordRuns runs =
          steps.end_runs(blocks.data(), count, blocks.data(), state, bounds.data() + 1);
      const std::array<std::uint64_t, 2> whole{runs.whole, 0};
      GroupRuns totals;
      steps.add_runs(bounds.data(), whole.data(), 0, runs.count, totals);

      const PlainRuns wanted = plain_runs(std::span(blocks).first(count));
      ASSERT_EQ(totals, wanted.ended) << "block " << at;
      ASSERT_EQ(runs.ends, wanted.ends) << "block " << at;
      ASSERT_EQ(state.open != 0, wanted.open_bytes != 0) << "block " << at;
      if (state.open != 0) {
        ASSERT_EQ(state.from_segment_begin != 0, wanted.open_from_segment_begin) << "block " << at;
      }
      ASSERT_EQ(run_bytes(bounds[runs.count], state.free_bytes), wanted.open_bytes)
          << "block " << at;
    }
  }
}

}  // namespace
}  // namespace fragscope::kernels
