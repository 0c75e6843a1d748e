// SPDX-License-Identifier: Apache-2.0
// The free runs of one device's heap while events change it: maximal ranges of free bytes inside
// one segment. Follows ranges of addresses alone, so splits and merges of holes need not be told.
// Used by `HeapOffer`. Not thread-safe.
#pragma once

#include "analyzer/model/heap_state.hpp"

#include <absl/container/btree_map.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace fragscope::servability {

/// [begin, end), in bytes.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  [[nodiscard]] std::uint64_t size_bytes() const { return end - begin; }
  [[nodiscard]] bool contains(std::uint64_t address) const {
    return begin <= address && address < end;
  }
};

/// A plain segment, or a mapped range of an expandable one.
struct SegmentRange {
  Range range;
  model::Home home;
};

/// Told of each run as it comes and goes. A run that grows goes first and then comes again.
class RunListener {
 public:
  RunListener() = default;
  RunListener(const RunListener&) = delete;
  RunListener& operator=(const RunListener&) = delete;
  virtual ~RunListener() = default;

  virtual void run_comes(const SegmentRange& segment, Range run) = 0;
  virtual void run_goes(const SegmentRange& segment, Range run) = 0;
};

/// Bytes outside every segment, bytes taken twice or freed twice, and segments in one another are
/// passed over, so that a damaged recording does no harm. Cost of a change: a few look-ups in
/// ordered maps of the segments and the runs.
class FreeRuns {
 public:
  /// `listener` must outlive this.
  explicit FreeRuns(RunListener& listener)
      : listener_(&listener) {}

  using FollowSegment = std::function<bool(const model::Home& home)>;

  /// Begins again with those segments of this heap that are to be followed. Tells the listener of
  /// their runs, but not that earlier ones go.
  void begin(
      const model::HeapState& state,
      bool pending_is_free,
      const FollowSegment& is_followed = [](const model::Home&) { return true; });

  /// A segment, or pages, all free. Pages next to others of their home are one range with them.
  void add_segment(Range range, const model::Home& home);
  /// Gives whose it was; none: nothing was there to remove.
  std::optional<model::Home> remove_segment(Range range);
  /// The bytes are used from now on.
  void take(Range range);
  /// The bytes are free from now on.
  void give(Range range);

  /// Ordered by address.
  template <class Use>
  void for_each_segment(Use use) const {
    for (const auto& [begin, segment] : segments_)
      use(segment);
  }
  /// Those that begin inside `range`, by address, until `use` says no.
  template <class Use>
  void visit_runs(const Range& range, Use use) const {
    for (auto at = runs_.lower_bound(range.begin); at != runs_.end() && at->first < range.end; ++at)
      if (!use(Range{at->first, at->second})) return;
  }
  /// Null: there is none.
  [[nodiscard]] const SegmentRange* segment_of(std::uint64_t address) const;

 private:
  using Segments = absl::btree_map<std::uint64_t, SegmentRange>;  // by begin
  using Runs = absl::btree_map<std::uint64_t, std::uint64_t>;     // begin, end

  [[nodiscard]] Segments::iterator segment_at(std::uint64_t address);
  /// The same, or null; quick where the one found last is asked for again.
  [[nodiscard]] const SegmentRange* find_segment(std::uint64_t address);
  /// Whether it is a range, and no segment has any of it.
  [[nodiscard]] bool is_clear(Range range) const;
  void add_run(const SegmentRange& segment, Range run);
  void give_within(const SegmentRange& segment, Range range);

  RunListener* listener_;
  Segments segments_;
  Runs runs_;
  const SegmentRange* last_ = nullptr;  // segment found
};

}  // namespace fragscope::servability
