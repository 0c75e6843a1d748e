// SPDX-License-Identifier: Apache-2.0
// One device's heap at one moment: segments, the blocks that tile them, and the sums that the
// output and the verdict are made of. The state at the end comes straight from the recording;
// earlier ones from `Timeline`. Plain data; a summary costs one pass over the blocks.
#pragma once

#include "analyzer/model/segment_history.hpp"
#include "analyzer/recording/recording.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fragscope::model {

/// A block at that moment. Where its size is only bounded, `size_bytes` is the lower end for a live
/// or pending block and the upper end for the hole behind it; the true border lies `slack_bytes`
/// or less further on.
struct HeapBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
  std::uint32_t slack_bytes = 0;
  StackId stack = kNoStack;
  BlockState state = BlockState::kFree;
};

/// A plain segment, or one contiguous mapped range of an expandable one.
struct HeapSegment {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  Home home;
  std::uint32_t first_block = 0;
  std::uint32_t block_count = 0;
  bool pool_assumed = false;  ///< Gone by the end, in a trace that names no pools.
  /// Rises in the order in which segments were obtained, of an address space for all its ranges; 0
  /// for all where that is not known.
  std::uint64_t number = 0;
};

/// The lowest address that was ever mapped of an expandable segment; what lies between it and the
/// first mapped range is unmapped space that the allocator would fill first.
struct ExpandableStart {
  std::uint64_t address = 0;
  Home home;
};

/// Address space of an expandable segment, as a keyframe stated it.
struct ReservedSpace {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t number = 0;  ///< As of `HeapSegment`.
  Home home;
};

struct HeapState {
  bool has_requested_sizes = true;
  std::vector<HeapSegment> segments;               ///< By address.
  std::vector<HeapBlock> blocks;                   ///< Tile the segments, in order.
  std::vector<ExpandableStart> expandable_starts;  ///< As far as the trace shows them.
  /// By address, also those without a page: what the last keyframe stated and is there still.
  std::vector<ReservedSpace> reserved_spaces;
  std::uint64_t unplaced_count = 0;  ///< Blocks that lie in no known segment, and are left out.

  [[nodiscard]] std::span<const HeapBlock> blocks_of(const HeapSegment& segment) const {
    return {blocks.data() + segment.first_block, segment.block_count};
  }
};

/// A quantity known to lie in [low, high].
struct Bounds {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Bounds&, const Bounds&) = default;
};

[[nodiscard]] constexpr Bounds exactly(std::uint64_t bytes) {
  return {bytes, bytes};
}
/// Saturating, so that "unknown" (high = 2^64 - 1) stays unknown.
[[nodiscard]] Bounds operator+(Bounds left, Bounds right);
/// Never below 0.
[[nodiscard]] Bounds operator-(Bounds left, Bounds right);

struct HomeSummary {
  Home home;
  Bounds free_bytes;
  Bounds largest_hole_bytes;
  std::uint64_t pending_bytes = 0;
  std::uint64_t holes = 0;
};

/// The gap between reserved and requested, split four ways; the parts sum to it.
struct Gap {
  std::optional<std::uint64_t> rounding_bytes;  ///< allocated - requested; unknown before 2.0
  std::uint64_t pending_bytes = 0;
  std::uint64_t releasable_bytes = 0;  ///< wholly free segments (pages) of the default pool
  std::uint64_t stuck_bytes = 0;       ///< the other free bytes
};

/// The layers at one moment. They overlap (requested <= allocated <= reserved) and are never added.
struct StateSummary {
  std::uint64_t reserved_bytes = 0;
  Bounds allocated_bytes;
  std::optional<std::uint64_t> requested_bytes;
  std::optional<std::uint64_t> requested_active_bytes;
  Bounds active_bytes;  ///< live and pending
  Bounds inactive_split_bytes;
  Bounds pending_bytes;
  Bounds free_bytes;
  Bounds largest_hole_bytes;
  std::uint64_t segments = 0;
  std::uint64_t blocks = 0;
  std::uint64_t holes = 0;
  Gap gap;
  std::vector<HomeSummary> homes;  ///< One for each home that owns a segment, in order.
};

/// The state that the recording ends with on `device`.
[[nodiscard]] HeapState end_state(const Recording& recording, std::int32_t device);

[[nodiscard]] StateSummary summarize(const HeapState& state, const policy::SizeRules& rules);

/// Bytes of one segment that could go back to the driver now: all of a wholly free plain segment,
/// the pages that lie wholly inside holes of an expandable one. `pending_is_free`: as if every
/// pending block's event had completed.
[[nodiscard]] std::uint64_t releasable_bytes(const HeapState& state,
                                             const HeapSegment& segment,
                                             const policy::SizeRules& rules,
                                             bool pending_is_free);

/// Calls `use(begin, end, slack_bytes)` for each maximal free run of a segment. Neighbouring holes
/// are one run; with `pending_is_free` pending blocks count as free. The run is at least
/// end - begin - slack_bytes long.
template <class Use>
void for_each_free_run(const HeapState& state,
                       const HeapSegment& segment,
                       bool pending_is_free,
                       Use use) {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t slack = 0;
  for (const HeapBlock& block : state.blocks_of(segment)) {
    const bool is_free = block.state == BlockState::kFree ||
                         (pending_is_free && block.state == BlockState::kPending);
    if (is_free && begin == end) {
      begin = block.address;
      // A pending block's own uncertain end lies inside the run; only the first hole's start
      // counts.
      slack = block.state == BlockState::kFree ? block.slack_bytes : 0;
    }
    if (is_free) {
      end = block.address + block.size_bytes;
    } else if (begin != end) {
      use(begin, end, slack);
      begin = end = 0;
    }
  }
  if (begin != end) use(begin, end, slack);
}

}  // namespace fragscope::model
