// SPDX-License-Identifier: Apache-2.0
// The first half of `Timeline`: undo a trace to the state before its first event, match every free
// with its hand-out, and redo it forward, deriving each block's size from the hole it was cut from.
#pragma once

#include "analyzer/model/place_index.hpp"
#include "analyzer/model/rounding_rule.hpp"
#include "analyzer/model/segment_history.hpp"
#include "analyzer/recording/recording.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace fragscope::model {

/// An event number as narrow as a snapshot needs: millions of them are held at once.
using ShortIndex = std::int32_t;

/// A block from hand-out to completed free. `alloc_event` is -1 for one that was there before the
/// first event; the free events are the trace's length if they never come.
struct BlockLife {
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
  std::uint32_t slack_bytes = 0;  ///< The size is at most this much more than `size_bytes`.
  Place place = kNoPlace;
  ShortIndex alloc_event = kBeforeFirst;
  ShortIndex free_requested_event = 0;
  ShortIndex free_completed_event = 0;
  StackId stack = kNoStack;
};

/// What did not fit together while rebuilding; each count weakens the evidence.
struct RebuildCounts {
  std::uint64_t allocs_on_live_blocks = 0;  ///< The free before them is missing.
  std::uint64_t unmatched_frees = 0;        ///< Of blocks that were not live.
  std::uint64_t overlapping_blocks = 0;     ///< Larger than the hole they were cut from.
  std::uint64_t unmatched_segment_events = 0;
  std::uint64_t end_mismatches = 0;  ///< Blocks that redo leaves otherwise than the file.
  std::uint64_t from_before = 0;     ///< Blocks handed out before the first event.
  std::uint64_t bounded_sizes = 0;   ///< Lives whose size stays a bound.
  std::uint64_t assumed_homes = 0;   ///< Vanished segments whose pool or class is assumed.
  bool no_free_requested = false;    ///< Completions only: pending blocks count as live.
  bool no_free_completed = false;    ///< The actions were skipped while recording.
  bool clock_goes_back = false;
};

/// What rebuilding gives; `Timeline` keeps it.
struct RebuiltHistory {
  PlaceIndex places;
  LargeVector<BlockLife> lives;
  LargeVector<LifeId> life_of_event;
  std::vector<LifeId> lives_at_start;
  LargeVector<std::int32_t> plain_of_life;  ///< Index in `SegmentHistory::plain`; -1: in none.
  RebuildCounts counts;
};

/// `segments`: the device's segments at the end. May complete the homes in `history` from the
/// blocks that the trace shows in them. Cost: a fixed number of steps for each event.
[[nodiscard]] RebuiltHistory rebuild_history(const Recording& recording,
                                             std::span<const Segment> segments,
                                             std::span<const Event> events,
                                             RoundingRule rule,
                                             SegmentHistory& history);

}  // namespace fragscope::model
