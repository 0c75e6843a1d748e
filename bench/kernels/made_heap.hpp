// SPDX-License-Identifier: Apache-2.0
// A table of blocks for the benchmarks of the scans, and its runs by a plain loop, made once.
#pragma once

#include "kernels/block_table.hpp"
#include "kernels/scans.hpp"

#include <cstdint>
#include <vector>

namespace fragscope::kernels {

/// 128 MiB of blocks: far more than a processor's caches in most machines.
inline constexpr std::uint64_t kLargeBlocks = std::uint64_t{1} << 24;

struct HeapShape {
  std::uint64_t blocks = kLargeBlocks;
  std::uint64_t group_blocks = 1024;  ///< Each.
  std::uint64_t segment_blocks = 16;  ///< Up to so many, half of it on average.
  friend bool operator==(const HeapShape&, const HeapShape&) = default;
};

struct MadeHeap {
  std::vector<PackedBlock> blocks;
  std::vector<std::uint64_t> group_begins;
  std::vector<std::uint64_t> segment_begins;
  std::vector<GroupRuns> runs;

  [[nodiscard]] std::uint64_t groups() const { return runs.size(); }
};

/// Half of the blocks free, sizes from 512 bytes to 2 MiB. The last heap made is kept.
[[nodiscard]] const MadeHeap& made_heap(const HeapShape& shape);

}  // namespace fragscope::kernels
