// SPDX-License-Identifier: Apache-2.0
// Runs on the CPU, 64 blocks at a time: where runs begin and end is bit arithmetic on their flags,
// and only the ends are visited one by one. No branch depends on what a single block is.
#include "kernels/algorithm/tile_runs.hpp"
#include "kernels/cpu/block_word.hpp"
#include "kernels/cpu/scans_cpu.hpp"
#include "kernels/cpu/threads.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

namespace fragscope::kernels {
namespace {

/// Blocks of a tile: 512 KiB, so that threads share work evenly, and what a tile costs beside its
/// blocks does not show.
constexpr std::uint64_t kTileBlocks = std::uint64_t{1} << 16;

/// How far ahead blocks are asked for. Measured: without it one core reads three quarters as much,
/// and between 2 and 8 KiB it makes no difference.
constexpr std::uint64_t kPrefetchBlocks = 512;

/// Where the runs of 64 blocks end: bit i if one ends in front of block i. Beside it what is open
/// behind the blocks.
struct RunEnds {
  std::uint64_t all = 0;
  std::uint64_t whole_segments = 0;  ///< Those that fill their segment.
};

/// The open run in front of the next block, as far as flags say it.
struct OpenFlags {
  std::uint64_t open = 0;                ///< 1 if there is one.
  std::uint64_t from_segment_begin = 0;  ///< 1 if it begins where its segment does.
};

/// The ends among the first `count` blocks of a word; `flags` goes from in front of them to behind.
RunEnds ends_of(const BlockWord& word, unsigned count, OpenFlags& flags) {
  const std::uint64_t after_free = word.free << 1 | flags.open;
  const std::uint64_t continues = word.free & ~word.first & after_free;
  const std::uint64_t begins = word.free & word.first;
  // A bit added at the second block of a run is carried to the block behind its last.
  const std::uint64_t carried = (begins << 1 | flags.from_segment_begin) + continues;
  const std::uint64_t inside = ~std::uint64_t{0} >> (kWordBlocks - count);
  const std::uint64_t ends = after_free & ~continues & inside;
  const RunEnds found{ends, ends & carried & word.first};
  flags.open = word.free >> (count - 1) & 1;
  flags.from_segment_begin = count < kWordBlocks
                                 ? (carried & ~continues) >> count & 1
                                 : begins >> (kWordBlocks - 1) | (carried < continues ? 1U : 0U);
  return found;
}

/// Folds the blocks of one tile behind its first border.
class TileFold {
 public:
  TileFold(const BlockTable& table, const GroupIndex& index, const RunsOutput& output)
      : blocks_(table.blocks)
      , index_(index)
      , output_(output) {}

  /// Blocks from `begin`, which is a border, to `end`; `group` holds `begin`. Returns what is open.
  OpenRun fold(std::uint64_t begin, std::uint64_t end, std::uint64_t group) {
    group_ = group;
    group_end_ = index_.end_of(group);
    std::uint64_t at = begin;
    for (; at + kWordBlocks <= end; at += kWordBlocks) {
      prefetch(at + kPrefetchBlocks);
      fold_word(blocks_.data() + at, at, kWordBlocks);
    }
    if (at < end) {
      std::array<PackedBlock, kWordBlocks> last{};
      std::memcpy(last.data(), blocks_.data() + at, (end - at) * sizeof(PackedBlock));
      fold_word(last.data(), at, static_cast<unsigned>(end - at));
    }
    output_.add(group_, totals_);
    if (flags_.open == 0) return {OpenRun::kBorder};
    const std::uint64_t from = flags_.from_segment_begin != 0 ? OpenRun::kFromSegmentBegin : 0;
    return {OpenRun::kBorder | from | (free_bytes_ - closed_bytes_)};
  }

 private:
  void prefetch(std::uint64_t block) const {
    if (block + kWordBlocks > blocks_.size()) return;
    for (std::uint64_t line = 0; line < kWordBlocks; line += 8) {
      __builtin_prefetch(blocks_.data() + block + line);
    }
  }

  void fold_word(const PackedBlock* blocks, std::uint64_t first, unsigned count) {
    BlockWord word;
    unpack_(blocks, free_bytes_, word);
    RunEnds ends = ends_of(word, count, flags_);
    while (group_end_ < first + count) {
      // Up to the bit of the next group's first block, in front of which the last run ends.
      const std::uint64_t ours = ~std::uint64_t{0} >> (kWordBlocks - 1 - (group_end_ - first));
      add_runs(word, {ends.all & ours, ends.whole_segments & ours});
      ends = {ends.all & ~ours, ends.whole_segments & ~ours};
      enter_next_group();
    }
    add_runs(word, ends);
  }

  /// Adds the runs that end at `ends`, which are all of one group.
  void add_runs(const BlockWord& word, const RunEnds& ends) {
    if (ends.all == 0) return;
    for (std::uint64_t left = ends.whole_segments; left != 0; left &= left - 1) {
      const std::uint64_t end = left & (~left + 1);
      const std::uint64_t earlier = ends.all & (end - 1);
      totals_.free_segment_bytes +=
          word.free_before[top_bit(end)] -
          (earlier == 0 ? closed_bytes_ : word.free_before[top_bit(earlier)]);
    }
    if (output_.histogram != nullptr) count_runs(word, ends);
    std::uint64_t closed = closed_bytes_;
    std::uint64_t largest = totals_.largest_run_bytes;
    for (std::uint64_t left = ends.all; left != 0; left &= left - 1) {
      const std::uint64_t at_end = word.free_before[static_cast<unsigned>(std::countr_zero(left))];
      largest = std::max(largest, at_end - closed);
      closed = at_end;
    }
    totals_.largest_run_bytes = largest;
    totals_.runs += static_cast<unsigned>(std::popcount(ends.all));
    totals_.free_bytes += closed - closed_bytes_;
    closed_bytes_ = closed;
  }

  void count_runs(const BlockWord& word, const RunEnds& ends) const {
    std::uint64_t closed = closed_bytes_;
    for (std::uint64_t left = ends.all; left != 0; left &= left - 1) {
      const std::uint64_t at_end = word.free_before[static_cast<unsigned>(std::countr_zero(left))];
      output_.count(group_, at_end - closed);
      closed = at_end;
    }
  }

  /// The next one with blocks.
  void enter_next_group() {
    output_.add(group_, std::exchange(totals_, {}));
    const std::uint64_t begin = group_end_;
    while (group_end_ == begin)
      group_end_ = index_.end_of(++group_);
  }

  UnpackWord unpack_ = fastest_unpack_word();
  std::span<const PackedBlock> blocks_;
  GroupIndex index_;
  RunsOutput output_;
  std::uint64_t group_ = 0;
  std::uint64_t group_end_ = 0;
  GroupRuns totals_;
  OpenFlags flags_;
  std::uint64_t free_bytes_ = 0;    ///< Behind the fold's begin.
  std::uint64_t closed_bytes_ = 0;  ///< Of these, in runs that have ended.
};

}  // namespace

void find_runs_cpu(const BlockTable& table, unsigned threads, const RunsOutput& output) {
  const std::uint64_t blocks = table.blocks.size();
  if (blocks == 0) return;
  const std::uint64_t tiles = (blocks + kTileBlocks - 1) / kTileBlocks;
  const GroupIndex index{table.group_begins.data(), table.groups()};
  std::vector<TileHead> heads(tiles);
  std::vector<OpenRun> own(tiles);
  for_each_index(tiles, threads, [&](std::uint64_t tile) {
    const std::uint64_t begin = tile * kTileBlocks;
    const std::uint64_t end = std::min(blocks, begin + kTileBlocks);
    std::uint64_t border = begin;
    std::uint64_t head_bytes = 0;
    while (border < end && !is_border(table.blocks[border]))
      head_bytes += table.blocks[border++].size_bytes();
    own[tile] = {head_bytes};
    if (border == end) return;
    heads[tile] = {
        head_bytes, index.find(border == 0 ? 0 : border - 1), table.blocks[border].is_first()};
    own[tile] = TileFold(table, index, output).fold(border, end, index.find(border));
  });
  std::vector<OpenRun> before(tiles);
  for (std::uint64_t tile = 1; tile < tiles; ++tile)
    before[tile] = JoinRuns{}(before[tile - 1], own[tile - 1]);
  const StitchTiles stitch{heads.data(), own.data(), before.data(), tiles, index, output};
  for (std::uint64_t tile = 0; tile < tiles; ++tile)
    stitch(tile);
}

}  // namespace fragscope::kernels
