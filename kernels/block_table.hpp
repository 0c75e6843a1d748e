// SPDX-License-Identifier: Apache-2.0
// What the scans read: the blocks of many heaps, one behind another, eight bytes each. A *group* is
// one home at one event (or one home of one what-if variant); its blocks lie together, segment by
// segment, by address. Used by whoever scans; it leaves out addresses, stacks and what a group
// means.
#pragma once

#include "kernels/primitives/host_device.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <span>

namespace fragscope::kernels {

/// A block in one word.
///
///     bit 63   free: could serve a request (a pending block is not free)
///     bit 62   the first block of its segment
///     0 to 61  size in bytes, at least 1
struct PackedBlock {
  static constexpr std::uint64_t kFree = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kFirst = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kSizeMask = kFirst - 1;

  std::uint64_t bits = 0;

  /// `size_bytes` beyond `kSizeMask` is cut; `check_table` bounds whole groups by it.
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE static constexpr PackedBlock free(std::uint64_t size_bytes) {
    return {kFree | (size_bytes & kSizeMask)};
  }
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE static constexpr PackedBlock live(std::uint64_t size_bytes) {
    return {size_bytes & kSizeMask};
  }
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr PackedBlock as_first() const {
    return {bits | kFirst};
  }

  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr bool is_free() const { return (bits & kFree) != 0; }
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr bool is_first() const {
    return (bits & kFirst) != 0;
  }
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr std::uint64_t size_bytes() const {
    return bits & kSizeMask;
  }
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr std::uint64_t free_bytes() const {
    return is_free() ? size_bytes() : 0;
  }
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr std::uint64_t live_bytes() const {
    return is_free() ? 0 : size_bytes();
  }
};
static_assert(sizeof(PackedBlock) == 8);

/// Blocks and where each group begins. Group g holds the blocks from `group_begins[g]` up to, not
/// including, `group_begins[g + 1]`, counted from `group_begins[0]`, which need not be 0: so some
/// groups of a table are a table again. Groups may be empty.
struct BlockTable {
  std::span<const PackedBlock> blocks;
  std::span<const std::uint64_t> group_begins;  ///< One more than groups; or none at all.

  [[nodiscard]] std::uint64_t groups() const {
    return group_begins.empty() ? 0 : group_begins.size() - 1;
  }
  /// The groups from `first` up to, not including, `last`; nothing is copied.
  [[nodiscard]] BlockTable part(std::uint64_t first, std::uint64_t last) const {
    return {blocks.subspan(group_begins[first] - group_begins[0],
                           group_begins[last] - group_begins[first]),
            group_begins.subspan(first, last - first + 1)};
  }
};

/// Whether a table is what the scans take for granted: the begins rise and cover the blocks, the
/// first block of a group begins a segment, no block is empty, and no group has more bytes than a
/// block's size can say (so that no sum inside a segment touches the flags). Scans do not check
/// again: what they say of any other table is undefined. Fails: `kContradictory` or `kTooLarge`,
/// with the first block or group that is wrong. Cost: one pass over the blocks.
[[nodiscard]] Result<void> check_table(const BlockTable& table);

/// Whether `segment_begins` (indexes as in `group_begins`, one more than segments) are the segments
/// of a checked table. Fails: `kContradictory`.
[[nodiscard]] Result<void> check_segments(const BlockTable& table,
                                          std::span<const std::uint64_t> segment_begins);

}  // namespace fragscope::kernels
