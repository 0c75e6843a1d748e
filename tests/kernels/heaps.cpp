// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/heaps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <utility>

namespace fragscope::kernels {
namespace {

std::uint64_t between(std::mt19937_64& draw, std::uint64_t low, std::uint64_t high) {
  return std::uniform_int_distribution<std::uint64_t>(low, high)(draw);
}

TestSegment random_segment(const Regime& regime, std::uint64_t blocks, std::mt19937_64& draw) {
  TestSegment segment(blocks);
  for (TestBlock& block : segment) {
    // Sizes of every power of two, so that every size class and every carry occurs.
    block.size_bytes = between(draw, 1, std::uint64_t{1} << between(draw, 0, 40));
    block.free = between(draw, 0, 99) < regime.free_percent;
  }
  // As the last segments handed back in a real heap: free from end to end.
  if (between(draw, 0, 4) == 0 && regime.free_percent > 0) {
    for (TestBlock& block : segment)
      block.free = true;
  }
  return segment;
}

TestGroup random_group(const Regime& regime, std::uint64_t blocks, std::mt19937_64& draw) {
  TestGroup group;
  while (blocks > 0) {
    const std::uint64_t some = between(draw, 1, std::min(blocks, regime.segment_blocks));
    group.push_back(random_segment(regime, some, draw));
    blocks -= some;
  }
  return group;
}

}  // namespace

std::vector<Regime> regimes(std::uint64_t tile) {
  std::vector<Regime> all{
      {"no blocks", 0, 1, 1, 50, 0},
      {"one block", 1, 1, 1, 100, 0},
      {"tiny groups", 3 * tile, 3, 2, 50, 30},
      {"single block segments", 3 * tile, 200, 1, 60, 5},
      {"ordinary", 5 * tile + 17, 300, 20, 45, 5},
      {"one huge segment", 4 * tile + 3, 4 * tile + 3, 4 * tile + 3, 50, 0},
      {"one huge group", 4 * tile + 3, 4 * tile + 3, 40, 50, 0},
      {"long runs", 6 * tile, 3 * tile, 2 * tile, 99, 0},
      {"all free", 3 * tile + 1, 2 * tile, tile, 100, 10},
      {"all free, one segment", 3 * tile + 1, 3 * tile + 1, 3 * tile + 1, 100, 0},
      {"all live", 3 * tile - 1, 100, 10, 0, 10},
  };
  for (const std::uint64_t length : {tile - 1, tile, tile + 1, 2 * tile - 1, 2 * tile, 3 * tile}) {
    const std::string name = "around tile borders: " + std::to_string(length);
    all.push_back({name, length, length, 7, 50, 0});
    all.push_back({name + ", groups of a tile", length, tile, tile, 80, 20});
  }
  return all;
}

TestHeap heap_of(std::vector<TestGroup> groups, std::uint64_t first_index) {
  TestHeap heap;
  heap.groups = std::move(groups);
  heap.group_begins.push_back(first_index);
  heap.segment_begins.push_back(first_index);
  for (const TestGroup& group : heap.groups) {
    for (const TestSegment& segment : group) {
      bool first = true;
      for (const TestBlock& block : segment) {
        const PackedBlock packed =
            block.free ? PackedBlock::free(block.size_bytes) : PackedBlock::live(block.size_bytes);
        heap.blocks.push_back(first ? packed.as_first() : packed);
        first = false;
      }
      heap.segment_begins.push_back(first_index + heap.blocks.size());
    }
    heap.group_begins.push_back(first_index + heap.blocks.size());
  }
  return heap;
}

TestHeap random_heap(const Regime& regime, std::uint64_t seed, std::uint64_t first_index) {
  std::mt19937_64 draw(seed);
  std::vector<TestGroup> groups;
  std::uint64_t left = regime.blocks;
  while (left > 0) {
    while (between(draw, 0, 99) < regime.empty_group_percent)
      groups.emplace_back();
    // The huge ones exactly as long as the regime says.
    const std::uint64_t most = std::min(left, regime.group_blocks);
    const std::uint64_t some = regime.group_blocks >= regime.blocks ? most : between(draw, 1, most);
    groups.push_back(random_group(regime, some, draw));
    left -= some;
  }
  while (between(draw, 0, 99) < regime.empty_group_percent)
    groups.emplace_back();
  return heap_of(std::move(groups), first_index);
}

std::vector<std::uint64_t> reference_run_sizes(const TestGroup& group) {
  std::vector<std::uint64_t> runs;
  for (const TestSegment& segment : group) {
    bool open = false;
    for (const TestBlock& block : segment) {
      if (block.free && open) runs.back() += block.size_bytes;
      if (block.free && !open) runs.push_back(block.size_bytes);
      open = block.free;
    }
  }
  return runs;
}

GroupRuns reference_runs(const TestGroup& group) {
  GroupRuns total;
  for (const std::uint64_t bytes : reference_run_sizes(group)) {
    total.free_bytes += bytes;
    total.largest_run_bytes = std::max(total.largest_run_bytes, bytes);
    ++total.runs;
  }
  for (const TestSegment& segment : group) {
    if (!std::ranges::all_of(segment, &TestBlock::free)) continue;
    for (const TestBlock& block : segment)
      total.free_segment_bytes += block.size_bytes;
  }
  return total;
}

Runs reference_runs(const TestHeap& heap) {
  Runs all;
  for (const TestGroup& group : heap.groups) {
    all.groups.push_back(reference_runs(group));
    std::vector<std::uint32_t> histogram(kRunClasses);
    for (const std::uint64_t bytes : reference_run_sizes(group)) {
      std::uint32_t size_class = 0;
      while (bytes >> (size_class + 1) != 0)
        ++size_class;
      ++histogram[size_class];
    }
    all.histogram.insert(all.histogram.end(), histogram.begin(), histogram.end());
  }
  return all;
}

void expect_same_runs(const Runs& found, const Runs& wanted) {
  ASSERT_EQ(found.groups.size(), wanted.groups.size());
  for (std::size_t group = 0; group < wanted.groups.size(); ++group)
    ASSERT_EQ(found.groups[group], wanted.groups[group]) << "group " << group;
  ASSERT_EQ(found.histogram.size(), wanted.histogram.size());
  for (std::size_t i = 0; i < wanted.histogram.size(); ++i) {
    ASSERT_EQ(found.histogram[i], wanted.histogram[i])
        << "group " << i / kRunClasses << ", runs of 2^" << i % kRunClasses << " bytes and more";
  }
}

void expect_same_windows(const Windows& found, const Windows& wanted) {
  ASSERT_EQ(found.segments.size(), wanted.segments.size());
  for (std::size_t segment = 0; segment < wanted.segments.size(); ++segment)
    ASSERT_EQ(found.segments[segment], wanted.segments[segment]) << "segment " << segment;
}

std::uint64_t test_seed() {
  const char* given = std::getenv("FRAGSCOPE_TEST_SEED");
  return given == nullptr ? 20260901 : std::strtoull(given, nullptr, 10);
}

void PrintTo(const GroupRuns& runs, std::ostream* out) {
  *out << "free " << runs.free_bytes << ", largest run " << runs.largest_run_bytes
       << ", in free segments " << runs.free_segment_bytes << ", runs " << runs.runs;
}

void PrintTo(const Window& window, std::ostream* out) {
  *out << "live " << window.live_bytes << " of " << window.bytes << " bytes from block "
       << window.first;
}

FillChunk HeapSource::fill() {
  return [this](const Chunk& chunk) -> Result<std::uint64_t> {
    const std::vector<std::uint64_t>& begins = heap_.group_begins;
    std::uint64_t groups = 0;
    while (next_group_ + groups < heap_.groups.size() && groups + 1 < chunk.group_begins.size()) {
      const std::uint64_t end = begins[next_group_ + groups + 1] - begins[next_group_];
      if (end > chunk.blocks.size()) break;
      chunk.group_begins[++groups] = end;
    }
    const auto first =
        heap_.blocks.begin() + static_cast<std::ptrdiff_t>(begins[next_group_] - begins[0]);
    std::copy_n(first, chunk.group_begins[groups], chunk.blocks.begin());
    next_group_ += groups;
    return groups;
  };
}

TakeRuns HeapSource::take() {
  return [this](std::uint64_t first, std::span<const GroupRuns> runs) -> Result<void> {
    EXPECT_EQ(first, taken_.size());
    taken_.insert(taken_.end(), runs.begin(), runs.end());
    ++chunks_;
    return {};
  };
}

}  // namespace fragscope::kernels
