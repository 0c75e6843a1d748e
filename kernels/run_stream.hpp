// SPDX-License-Identifier: Apache-2.0
// The run scan over more groups than memory holds at once: many snapshots, or many variants of one,
// in chunks. Used where a recording is scanned from its first event to its last.
#pragma once

#include "kernels/algorithm/group_runs.hpp"
#include "kernels/block_table.hpp"
#include "kernels/scans.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <functional>
#include <span>

namespace fragscope::kernels {

/// How much a chunk holds at most, and with two of them on CUDA, half of the memory that is taken.
struct ChunkRoom {
  std::uint64_t blocks = std::uint64_t{1} << 22;  ///< 32 MiB.
  std::uint64_t groups = std::uint64_t{1} << 18;  ///< 8 MiB of answers.
};

/// A chunk to be filled from the front, as a `BlockTable` whose begins start at 0.
struct Chunk {
  std::span<PackedBlock> blocks;
  std::span<std::uint64_t>
      group_begins;  ///< Room for one more than groups; the first is 0 already.
};

/// Writes the next groups into a chunk and returns how many; 0 at the end. What does not fit waits
/// for the next chunk; a group that fits into no chunk is the caller's failure to tell.
using FillChunk = std::function<Result<std::uint64_t>(const Chunk& chunk)>;

/// Takes the runs of the groups from number `first` on, in order; they are gone afterwards.
using TakeRuns = std::function<Result<void>(std::uint64_t first, std::span<const GroupRuns> runs)>;

/// Fills, scans and takes until there are no more groups. Each chunk is checked as `check_table`
/// does. Returns which device ran; `work_bytes` is what all chunks will hold, as far as is known,
/// for `Device::kAuto` to choose by. Fails: as soon as `fill` or `take` does, with their error;
/// with that of a chunk that is no table, or is fuller than its room; and as `find_runs`.
[[nodiscard]] Result<DeviceChoice> stream_runs(const ChunkRoom& room,
                                               std::uint64_t work_bytes,
                                               const FillChunk& fill,
                                               const TakeRuns& take,
                                               const ScanOptions& options = {});

/// The table that `fill` left in a chunk of `groups` groups, checked.
[[nodiscard]] Result<BlockTable> filled_table(const Chunk& chunk, std::uint64_t groups);

}  // namespace fragscope::kernels
