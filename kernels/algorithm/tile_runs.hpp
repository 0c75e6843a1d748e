// SPDX-License-Identifier: Apache-2.0
// Runs across the borders of tiles. Each tile is folded alone; the first run that ends in it may
// have begun before it, so the tile only notes that end, and once the open runs behind all tiles
// have been scanned, `stitch` adds what was noted. Used by both forms of the run scan.
#pragma once

#include "kernels/algorithm/groups.hpp"
#include "kernels/algorithm/open_run.hpp"

#include <cstdint>

namespace fragscope::kernels {

/// The end of a run whose begin the tile does not know. There is one in every tile with a border.
struct TileHead {
  std::uint64_t bytes = 0;  ///< Of the run, inside the tile.
  std::uint64_t group = 0;
  bool at_segment_begin = false;  ///< The block behind it begins a segment.
};

/// Adds the runs that tile `tile` of `tiles` left: the one that ends at its first border, and
/// behind the last tile the one that ends with the table. `before` is what is open behind the tiles
/// before, `own` behind this tile alone.
struct StitchTiles {
  const TileHead* heads = nullptr;
  const OpenRun* own = nullptr;
  const OpenRun* before = nullptr;
  std::uint64_t tiles = 0;
  GroupIndex index;
  RunsOutput output;

  FRAGSCOPE_HOST_DEVICE void operator()(std::uint64_t tile) const {
    if (own[tile].has_border()) {
      const TileHead& head = heads[tile];
      add(head.group,
          before[tile].bytes() + head.bytes,
          before[tile].is_from_segment_begin() && head.at_segment_begin);
    }
    if (tile + 1 == tiles) {
      const OpenRun last = JoinRuns{}(before[tile], own[tile]);
      // The last group with blocks: the one before the end of the table.
      const std::uint64_t blocks = index.end_of(index.groups - 1);
      add(index.find(blocks - 1), last.bytes(), last.is_from_segment_begin());
    }
  }

  FRAGSCOPE_HOST_DEVICE void add(std::uint64_t group,
                                 std::uint64_t bytes,
                                 bool whole_segment) const {
    GroupRuns part;
    part.add_run(bytes, whole_segment);
    output.add(group, part);
    output.count(group, bytes);
  }
};

}  // namespace fragscope::kernels
