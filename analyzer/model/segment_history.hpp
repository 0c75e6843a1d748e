// SPDX-License-Identifier: Apache-2.0
// Which ranges one device's allocator held from the driver at which event. Plain segments come and
// go whole (segment_alloc, segment_free); expandable ones grow and shrink by pages (segment_map,
// segment_unmap). Built by undoing the trace's segment events from the end. Used by `Timeline`.
#pragma once

#include "analyzer/recording/ids.hpp"
#include "analyzer/recording/recording.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace fragscope::model {

/// Where a request or a hole belongs: only holes at home can serve a request.
struct Home {
  PoolIndex pool = kDefaultPool;
  SizeClass size_class = SizeClass::kLarge;
  bool expandable = false;
  std::int64_t stream = 0;
  friend auto operator<=>(const Home&, const Home&) = default;
};

/// A cudaMalloc segment. When it comes and goes: `SegmentHistory::changes`.
struct PlainSegment {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  Home home;
  EventIndex alloc_event = kBeforeFirst;
  bool home_assumed = false;  ///< Gone before the end, in a trace without pool ids.
};

/// Who owned an area from one event on: a range that was given back whole may come again for
/// another stream, pool or class.
struct AreaOwner {
  EventIndex from_event = kBeforeFirst;
  Home home;
  bool class_assumed = true;  ///< Not seen at the end; class by the first block, or by page size.
};

/// A maximal range of addresses that was mapped at some time.
struct Area {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Home home;                      ///< Of what is left at the end, else of its events.
  bool class_assumed = false;     ///< Nothing is left at the end.
  std::vector<AreaOwner> owners;  ///< In order of time; never empty once built.

  /// Who owned it in the state before `event`.
  [[nodiscard]] const AreaOwner& owner_before(EventIndex event) const {
    std::size_t at = owners.size() - 1;
    while (at > 0 && owners[at].from_event >= event)
      --at;
    return owners[at];
  }
};

/// Mapped ranges by start address -> end address. Adjacent ranges are merged.
using MappedRanges = std::map<std::uint64_t, std::uint64_t>;

class SegmentHistory {
 public:
  /// `segments`: those of this device at the end, by address.
  SegmentHistory(std::span<const Segment> segments,
                 std::span<const Event> events,
                 const policy::SizeRules& rules);

  [[nodiscard]] std::span<const PlainSegment> plain() const { return plain_; }
  [[nodiscard]] std::span<PlainSegment> plain() { return plain_; }
  [[nodiscard]] std::span<const Area> areas() const { return areas_; }
  /// The area that contains `address`, or null.
  [[nodiscard]] const Area* area_at(std::uint64_t address) const;
  [[nodiscard]] const MappedRanges& mapped_at_start() const { return mapped_at_start_; }
  /// The events that change a segment, in order.
  [[nodiscard]] std::span<const EventIndex> changes() const { return changes_; }
  /// The plain segment that `changes()[i]` makes or frees; -1 for map, unmap and unmatched events.
  [[nodiscard]] std::int32_t plain_of_change(std::size_t i) const { return plain_of_change_[i]; }
  /// Segment events that contradict the others and were left out.
  [[nodiscard]] std::uint64_t unmatched_count() const { return unmatched_count_; }

 private:
  void find_areas(std::span<const Segment> segments, std::span<const Event> events);
  void undo(std::span<const Event> events, const policy::SizeRules& rules);
  void find_owners(std::span<const Event> events);
  [[nodiscard]] std::int32_t undo_plain(const Event& event,
                                        EventIndex index,
                                        const policy::SizeRules& rules);
  void name_classes(std::span<const Event> events, const policy::SizeRules& rules);

  std::vector<PlainSegment> plain_;
  std::vector<Area> areas_;
  MappedRanges mapped_at_start_;
  std::vector<EventIndex> changes_;
  std::vector<std::int32_t> plain_of_change_;
  std::map<std::uint64_t, std::uint32_t> present_;  // while undoing: address -> index in plain_
  std::uint64_t unmatched_count_ = 0;
};

/// Adds [begin, end) to the ranges; false (and no change) if part of it is there already.
[[nodiscard]] bool map_range(MappedRanges& ranges, std::uint64_t begin, std::uint64_t end);
/// Takes [begin, end) out; false (and no change) if it is not all there.
[[nodiscard]] bool unmap_range(MappedRanges& ranges, std::uint64_t begin, std::uint64_t end);

}  // namespace fragscope::model
