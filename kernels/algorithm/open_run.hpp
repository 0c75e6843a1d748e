// SPDX-License-Identifier: Apache-2.0
// The monoid behind the runs: what a stretch of blocks tells whoever comes next to it. Everything
// else about a run (its length, how many there are) is known the moment it ends, and order does not
// matter there; so one word has to be scanned, not the four that (prefix, suffix, best, length)
// would take, and the look-back of a scan stays narrow.
#pragma once

#include "kernels/block_table.hpp"

#include <cstdint>

namespace fragscope::kernels {

/// The free run that is open behind a stretch of blocks.
///
///     bit 63   the stretch contains a border: the run cannot reach further back
///     bit 62   the run begins where its segment does; only together with bit 63
///     0 to 61  bytes of the run inside the stretch
///
/// A border is a live block, or the first of a segment.
struct OpenRun {
  static constexpr std::uint64_t kBorder = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kFromSegmentBegin = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kBytesMask = kFromSegmentBegin - 1;

  std::uint64_t bits = 0;  ///< 0, of no blocks at all, is the identity.

  /// Of one block.
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE static constexpr OpenRun of(PackedBlock block) {
    if (!block.is_free()) return {kBorder};
    return {block.is_first() ? kBorder | kFromSegmentBegin | block.size_bytes()
                             : block.size_bytes()};
  }

  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr bool has_border() const {
    return (bits & kBorder) != 0;
  }
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr bool is_from_segment_begin() const {
    return (bits & kFromSegmentBegin) != 0;
  }
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr std::uint64_t bytes() const {
    return bits & kBytesMask;
  }

  friend bool operator==(const OpenRun&, const OpenRun&) = default;
};

/// Puts one stretch behind another. Associative, not commutative.
struct JoinRuns {
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr OpenRun operator()(OpenRun before,
                                                                   OpenRun after) const {
    return after.has_border() ? after : OpenRun{before.bits + after.bits};
  }
};

/// Whether a run that is open cannot go on in this block.
[[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr bool is_border(PackedBlock block) {
  return !block.is_free() || block.is_first();
}

}  // namespace fragscope::kernels
