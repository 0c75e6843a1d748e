// SPDX-License-Identifier: Apache-2.0
// A piece of a segment. The blocks of a segment form a chain in address order that tiles it; in an
// expandable segment some of them are unmapped: address space without memory.
#pragma once

#include "allocator/policy/device/device_memory.hpp"

#include <cstdint>
#include <vector>

#include <boost/intrusive/set.hpp>

namespace fragscope::policy {

class BlockPool;
struct ExpandableSegment;

/// Blocks are owned by a `BlockStore` and never move. A free block is in its pool's set of free
/// blocks, an unmapped one in its set of unmapped blocks, any other in none; one hook serves both.
struct Block : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>> {
  Address address = 0;
  std::uint64_t size = 0;
  StreamId stream = 0;  ///< Current when the segment was obtained; the block serves no other.
  BlockPool* pool = nullptr;
  Block* prev = nullptr;  ///< Neighbours in the segment.
  Block* next = nullptr;
  ExpandableSegment* expandable = nullptr;  ///< Null in a plain segment.
  std::uint64_t requested_size = 0;         ///< What the last holder asked for.
  std::uint64_t segment_number = 0;         ///< Counts segments in the order they were obtained.
  std::uint64_t lookups_at_free = 0;        ///< The pool's count of lookups when this became free.
  std::uint32_t open_events = 0;            ///< Pending: events that still have to pass.
  mutable std::uint32_t tag = 0;            ///< The observer's own, of the last hand-out.
  bool allocated = false;
  bool mapped = true;
  std::vector<StreamId> used_on;  ///< Other streams it was used on (record_stream), no duplicates.

  /// Whether it shares its segment with other blocks.
  [[nodiscard]] bool is_split() const { return prev != nullptr || next != nullptr; }
  /// Neither handed out nor pending.
  [[nodiscard]] bool is_free() const { return !allocated && open_events == 0 && used_on.empty(); }
};

}  // namespace fragscope::policy
