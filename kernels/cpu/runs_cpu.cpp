// SPDX-License-Identifier: Apache-2.0
// Runs on the CPU, tile by tile. Runs that have ended are put aside until there are many, or their
// group ends: counted as they come, their number in each word of blocks would be a branch that no
// processor foresees.
#include "kernels/algorithm/tile_runs.hpp"
#include "kernels/cpu/scans_cpu.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/cpu/word_runs.hpp"

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

/// How far ahead blocks are asked for, into the second cache. Measured: without it one core reads
/// two thirds as much, and between 4 and 16 KiB it makes no difference.
constexpr std::uint64_t kPrefetchBlocks = 1024;

/// Runs that have ended and wait to be added, of one group after another.
class EndedRuns {
 public:
  explicit EndedRuns(const RunsOutput& output)
      : output_(output) {}

  /// Where the next word's bounds go; `group` is the one of all runs that wait.
  std::uint64_t* room_for_word(std::uint64_t group) {
    if (runs_ + kWordBlocks > kRoom) {
      add(group, runs_);
      bounds_[0] = bounds_[runs_];
      whole_[0] = 0;
      runs_ = 0;
      added_ = 0;
    }
    return bounds_.data() + 1 + runs_;
  }

  /// The runs of the word whose bounds were written.
  void append(const WordRuns& runs) {
    const std::uint64_t bit = runs_ % 64;
    whole_[runs_ / 64] |= runs.whole << bit;
    whole_[runs_ / 64 + 1] = bit == 0 ? 0 : runs.whole >> (64 - bit);
    runs_ += runs.count;
  }

  /// A group ends: all that wait but the last `later` are of it. `shared`: other threads may add to
  /// it too.
  void close(std::uint64_t group, unsigned later, bool shared) {
    add(group, runs_ - later);
    if (shared) {
      output_.add(group, totals_);
    } else {
      output_.groups[group] = AddRuns{}(output_.groups[group], totals_);
    }
    totals_ = {};
  }

  /// The free bytes in front of where the last run ended, as `RunState` counts them.
  [[nodiscard]] std::uint64_t last_bound() const { return bounds_[runs_]; }

  [[nodiscard]] const WordSteps& steps() const { return steps_; }

 private:
  static constexpr std::uint64_t kRoom = 512;  ///< Few enough for the first cache.

  void add(std::uint64_t group, std::uint64_t end) {
    steps_.add_runs(bounds_.data(), whole_.data(), added_, end, totals_);
    if (output_.histogram != nullptr) {
      for (std::uint64_t i = added_; i < end; ++i)
        output_.count(group, run_bytes(bounds_[i], bounds_[i + 1]));
    }
    added_ = end;
  }

  WordSteps steps_ = word_steps().back();
  RunsOutput output_;
  GroupRuns totals_;         ///< Of the group, without those that wait.
  std::uint64_t runs_ = 0;   ///< Run i lies between bounds i and i + 1.
  std::uint64_t added_ = 0;  ///< Of these; the others wait.
  std::array<std::uint64_t, kRoom + 1 + 8> bounds_{};
  std::array<std::uint64_t, kRoom / 64 + 1> whole_{};
};

/// Folds the blocks of one tile behind its first border.
class TileFold {
 public:
  TileFold(const BlockTable& table, const GroupIndex& index, const RunsOutput& output)
      : blocks_(table.blocks)
      , index_(index)
      , ended_(output) {}

  /// Blocks from `begin`, which is a border, to `end`; `group` holds `begin`. Returns what is open.
  OpenRun fold(std::uint64_t begin, std::uint64_t end, std::uint64_t group) {
    group_ = group;
    first_group_ = group;
    group_end_ = index_.end_of(group);
    const std::uint64_t aligned = std::min(end, begin + blocks_to_cache_line(begin));
    if (begin < aligned) fold_part(begin, aligned);
    std::uint64_t at = aligned;
    for (; at + kWordBlocks <= end; at += kWordBlocks) {
      const std::uint64_t ahead = std::min(at + kPrefetchBlocks, blocks_.size() - kWordBlocks);
      fold_word(blocks_.data() + at, at, kWordBlocks, blocks_.data() + ahead);
    }
    if (at < end) fold_part(at, end);
    ended_.close(group_, 0, true);
    if (state_.open == 0) return {OpenRun::kBorder};
    const std::uint64_t from = state_.from_segment_begin != 0 ? OpenRun::kFromSegmentBegin : 0;
    return {OpenRun::kBorder | from | run_bytes(ended_.last_bound(), state_.free_bytes)};
  }

 private:
  /// Blocks up to where a line of the cache begins: a load that lies in two lines takes two.
  [[nodiscard]] std::uint64_t blocks_to_cache_line(std::uint64_t block) const {
    constexpr std::uint64_t kLine = 64 / sizeof(PackedBlock);
    const auto address = reinterpret_cast<std::uintptr_t>(blocks_.data() + block);
    return (kLine - address / sizeof(PackedBlock) % kLine) % kLine;
  }

  /// Fewer blocks than a word has.
  void fold_part(std::uint64_t begin, std::uint64_t end) {
    std::array<PackedBlock, kWordBlocks> part{};
    std::memcpy(part.data(), blocks_.data() + begin, (end - begin) * sizeof(PackedBlock));
    fold_word(part.data(), begin, static_cast<unsigned>(end - begin), part.data());
  }

  void fold_word(const PackedBlock* blocks,
                 std::uint64_t first,
                 unsigned count,
                 const PackedBlock* ahead) {
    std::uint64_t* const bounds = ended_.room_for_word(group_);
    const WordRuns runs = ended_.steps().end_runs(blocks, count, ahead, state_, bounds);
    ended_.append(runs);
    while (group_end_ < first + count) {
      // Behind the bit of the next group's first block, in front of which our last run ends.
      const std::uint64_t later = runs.ends & ~std::uint64_t{1} << (group_end_ - first);
      ended_.close(group_, static_cast<unsigned>(std::popcount(later)), group_ == first_group_);
      enter_next_group();
    }
  }

  /// The next one with blocks.
  void enter_next_group() {
    const std::uint64_t begin = group_end_;
    while (group_end_ == begin)
      group_end_ = index_.end_of(++group_);
  }

  std::span<const PackedBlock> blocks_;
  GroupIndex index_;
  EndedRuns ended_;
  RunState state_;
  std::uint64_t group_ = 0;
  std::uint64_t group_end_ = 0;
  std::uint64_t first_group_ = 0;  ///< It and the last may have blocks in other tiles.
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
