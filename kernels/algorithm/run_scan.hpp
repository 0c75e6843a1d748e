// SPDX-License-Identifier: Apache-2.0
// The run scan over the primitives: tiles are folded, the open runs behind them scanned, what
// reaches across their borders stitched. The blocks are read once. It runs on a GPU by the
// primitives' CUDA form, and in tests by their host form.
#pragma once

#include "kernels/algorithm/tile_runs.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <utility>

namespace fragscope::kernels {

/// A tile is shared by `kThreads` threads, each with `kItems` consecutive items.
template <int kThreadCount, int kItemCount>
struct TileShape {
  static constexpr int kThreads = kThreadCount;
  static constexpr int kItems = kItemCount;
  static constexpr int kTile = kThreads * kItems;
};

/// What a GPU is given: 32 KiB of blocks, of which a multiprocessor holds six at once; enough to
/// keep its memory busy, by arithmetic. Not measured yet.
using GpuRunTile = TileShape<256, 16>;

/// What `for_tiles` does with the blocks of a tile (see `primitives/host_form.hpp`). Loops over a
/// thread's items have a constant bound, so that they unroll and the items stay in registers.
template <class Shape>
struct FoldRuns {
  using Item = PackedBlock;
  using Summary = OpenRun;
  using Join = JoinRuns;
  /// The groups that the tile has blocks of, and that of the block before it.
  struct Context {
    std::uint64_t low;
    std::uint64_t high;
  };
  /// What a thread found in the last group it saw.
  struct Part {
    std::uint64_t key;
    GroupRuns value;
  };
  using Add = AddRuns;
  static constexpr std::uint64_t kNoGroup = ~std::uint64_t{0};

  GroupIndex index;
  RunsOutput output;
  TileHead* heads = nullptr;
  OpenRun* own = nullptr;

  /// Of the blocks from `first` up to, not including, `last`.
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE Context open(std::uint64_t first, std::uint64_t last) const {
    return {index.find(first == 0 ? 0 : first - 1), index.find(last - 1)};
  }

  [[nodiscard]] FRAGSCOPE_HOST_DEVICE OpenRun summarise(const PackedBlock* blocks,
                                                        int count) const {
    OpenRun open;
    for (int i = 0; i < Shape::kItems; ++i) {
      if (i < count) open = JoinRuns{}(open, OpenRun::of(blocks[i]));
    }
    return open;
  }

  /// `before` is what is open in front of the blocks inside the tile.
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE Part finish(const Context& context,
                                                  std::uint64_t first,
                                                  const PackedBlock* blocks,
                                                  int count,
                                                  OpenRun before) const {
    if (count == 0) return {kNoGroup, {}};
    std::uint64_t group = index.find(first == 0 ? 0 : first - 1, context.low, context.high);
    std::uint64_t group_end = index.end_of(group);
    GroupRuns found;
    OpenRun open = before;
    for (int i = 0; i < Shape::kItems; ++i) {
      if (i >= count) continue;
      const std::uint64_t at = first + static_cast<std::uint64_t>(i);
      if (is_border(blocks[i])) {
        end_run(open, blocks[i].is_first(), group, at, found);
        if (at == group_end) {
          output.add(group, found);
          found = {};
          group = index.find(at, context.low, context.high);
          group_end = index.end_of(group);
        }
      }
      open = JoinRuns{}(open, OpenRun::of(blocks[i]));
    }
    return {group, found};
  }

  /// Adds a part; `Add` has joined those with the same key as far as was cheap.
  FRAGSCOPE_HOST_DEVICE void commit(const Part& part) const { output.add(part.key, part.value); }

  FRAGSCOPE_HOST_DEVICE void close(std::uint64_t tile, OpenRun whole_tile) const {
    own[tile] = whole_tile;
  }

 private:
  FRAGSCOPE_HOST_DEVICE void end_run(OpenRun open,
                                     bool at_segment_begin,
                                     std::uint64_t group,
                                     std::uint64_t at,
                                     GroupRuns& found) const {
    if (!open.has_border()) {
      heads[at / Shape::kTile] = {open.bytes(), group, at_segment_begin};
      return;
    }
    found.add_run(open.bytes(), open.is_from_segment_begin() && at_segment_begin);
    output.count(group, open.bytes());
  }
};

/// What `scan` reads.
struct OwnRuns {
  const OpenRun* own = nullptr;
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE OpenRun operator()(std::uint64_t tile) const {
    return own[tile];
  }
};

template <class Shape, class Form>
class RunScan {
 public:
  /// Room for tables of up to `blocks` blocks.
  [[nodiscard]] static Result<RunScan> make(Form& form, std::uint64_t blocks) {
    const std::uint64_t tiles = tiles_of(blocks);
    RunScan scan;
    if (auto made = form.allocate(tiles, scan.heads_); !made) return tl::unexpected(made.error());
    if (auto made = form.allocate(tiles, scan.own_); !made) return tl::unexpected(made.error());
    if (auto made = form.allocate(tiles, scan.before_); !made) return tl::unexpected(made.error());
    return scan;
  }

  [[nodiscard]] static constexpr std::uint64_t tiles_of(std::uint64_t blocks) {
    return (blocks + Shape::kTile - 1) / Shape::kTile;
  }

  /// All pointers are of the form's memory; the output is zero.
  [[nodiscard]] Result<void> run(Form& form,
                                 const PackedBlock* blocks,
                                 std::uint64_t count,
                                 const GroupIndex& index,
                                 const RunsOutput& output) {
    const std::uint64_t tiles = tiles_of(count);
    if (tiles == 0) return {};
    const FoldRuns<Shape> fold{index, output, heads_.data(), own_.data()};
    return form.template for_tiles<Shape>(fold, blocks, count)
        .and_then([&] {
          return form.scan(OwnRuns{own_.data()}, tiles, JoinRuns{}, OpenRun{}, before_.data());
        })
        .and_then([&] {
          return form.for_each(
              tiles, StitchTiles{heads_.data(), own_.data(), before_.data(), tiles, index, output});
        });
  }

 private:
  typename Form::template Array<TileHead> heads_;
  typename Form::template Array<OpenRun> own_;
  typename Form::template Array<OpenRun> before_;
};

}  // namespace fragscope::kernels
