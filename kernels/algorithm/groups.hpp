// SPDX-License-Identifier: Apache-2.0
// Which group a block belongs to, and how what was found is added to it by many threads at once.
// Used by both forms of the run scan.
#pragma once

#include "kernels/algorithm/group_runs.hpp"
#include "kernels/primitives/atomics.hpp"

#include <cstdint>

namespace fragscope::kernels {

/// The begins of a table's groups, blocks counted from 0. Searches skip empty groups.
struct GroupIndex {
  const std::uint64_t* begins = nullptr;  ///< As in `BlockTable`.
  std::uint64_t groups = 0;

  [[nodiscard]] FRAGSCOPE_HOST_DEVICE std::uint64_t end_of(std::uint64_t group) const {
    return begins[group + 1] - begins[0];
  }

  /// The group that holds the block, which is one of `low` to `high`.
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE std::uint64_t find(std::uint64_t block,
                                                         std::uint64_t low,
                                                         std::uint64_t high) const {
    while (low < high) {
      const std::uint64_t middle = low + (high - low + 1) / 2;
      if (begins[middle] - begins[0] <= block) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE std::uint64_t find(std::uint64_t block) const {
    return find(block, 0, groups - 1);
  }
};

/// Where the answer goes. All of it is zero before a scan.
struct RunsOutput {
  GroupRuns* groups = nullptr;
  std::uint32_t* histogram = nullptr;  ///< `kRunClasses` for each group; null if nobody asked.

  /// Adds to a group that other threads may be adding to.
  FRAGSCOPE_HOST_DEVICE void add(std::uint64_t group, const GroupRuns& part) const {
    if (part.runs == 0) return;
    GroupRuns& into = groups[group];
    atomic_add(into.free_bytes, part.free_bytes);
    atomic_max(into.largest_run_bytes, part.largest_run_bytes);
    if (part.free_segment_bytes != 0) atomic_add(into.free_segment_bytes, part.free_segment_bytes);
    atomic_add(into.runs, part.runs);
  }

  /// Counts one run by its size.
  FRAGSCOPE_HOST_DEVICE void count(std::uint64_t group, std::uint64_t bytes) const {
    if (histogram == nullptr || bytes == 0) return;
    atomic_add(histogram[group * kRunClasses + top_bit(bytes)], std::uint32_t{1});
  }
};

}  // namespace fragscope::kernels
