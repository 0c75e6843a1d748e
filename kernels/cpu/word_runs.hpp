// SPDX-License-Identifier: Apache-2.0
// 64 blocks at a time: where runs end in them is bit arithmetic on their flags, and the size of a
// run is the difference of two sums. No branch depends on what a single block is. Used by the run
// scan on the CPU, which says what the ends add up to.
#pragma once

#include "kernels/algorithm/group_runs.hpp"
#include "kernels/block_table.hpp"

#include <cstdint>
#include <vector>

namespace fragscope::kernels {

inline constexpr unsigned kWordBlocks = 64;

/// What one word of blocks leaves to the next.
struct RunState {
  /// Counted from anywhere, modulo 2^62: what stands in the two bits above has no meaning. No run
  /// is as long as that.
  std::uint64_t free_bytes = 0;
  std::uint64_t open = 0;                ///< 1 if there is an open run in front of the next block.
  std::uint64_t from_segment_begin = 0;  ///< If it is open: 1 if it begins where its segment does.
};

/// The runs that end in a word.
struct WordRuns {
  std::uint64_t ends = 0;   ///< Bit i if one ends in front of block i.
  std::uint64_t whole = 0;  ///< Bit i if the i-th of them fills its segment.
  unsigned count = 0;
};

/// The two steps of the scan, for one kind of processor. All kinds do the same.
struct WordSteps {
  /// Takes the first `count`, at least one, of the `kWordBlocks` blocks from `blocks` on; the
  /// others are zero. Writes the free bytes in front of each end, in order, as `RunState` counts
  /// them, to `bounds`, and up to eight words of anything behind them. `ahead` are as many blocks,
  /// which will be taken later.
  WordRuns (*end_runs)(const PackedBlock* blocks,
                       unsigned count,
                       const PackedBlock* ahead,
                       RunState& state,
                       std::uint64_t* bounds);

  /// Adds the runs from `begin` up to, not including, `end`. Run i lies between `bounds[i]` and
  /// `bounds[i + 1]`, and fills its segment if bit i of `whole`, 64 in a word, is set. Reads a byte
  /// behind the last of these bits.
  void (*add_runs)(const std::uint64_t* bounds,
                   const std::uint64_t* whole,
                   std::uint64_t begin,
                   std::uint64_t end,
                   GroupRuns& totals);
};

/// The bytes of a run between two bounds.
[[nodiscard]] constexpr std::uint64_t run_bytes(std::uint64_t begin, std::uint64_t end) {
  return (end - begin) & PackedBlock::kSizeMask;
}

/// All that this processor runs, the fastest last.
[[nodiscard]] const std::vector<WordSteps>& word_steps();

}  // namespace fragscope::kernels
