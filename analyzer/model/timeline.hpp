// SPDX-License-Identifier: Apache-2.0
// One device's heap at any event. A recording is the state at the end plus the last events; this
// class undoes them to the state before the first, redoes them forward, checks that the redo
// arrives at the recorded end, and can stop at any event on the way.
//
// What is exact and what is bounded (docs/architecture.md, "Time runs both ways"): a block handed
// out inside the window has an exact size, since the hole it was cut from is known. A large plain
// block from before the window that is freed inside it is exact as soon as something later starts
// directly behind it; otherwise its size lies within 1 MiB. Everything in expandable segments and
// of class small is exact.
//
// Cost: a fixed number of steps for each event, whatever their number and the number of blocks.
// Memory: about 100 bytes for each block's life. Not thread-safe; const members may be shared.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/model/history.hpp"
#include "analyzer/model/place_index.hpp"
#include "analyzer/model/rounding_rule.hpp"
#include "analyzer/model/segment_history.hpp"
#include "analyzer/model/timeline_rebuilder.hpp"
#include "analyzer/recording/recording.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace fragscope::model {

class Timeline final : public History {
 public:
  /// Rebuilds the device's history. `recording` must outlive the timeline.
  Timeline(const Recording& recording, std::int32_t device, RoundingRule rule);

  [[nodiscard]] std::int32_t device() const override { return device_; }
  [[nodiscard]] std::span<const Event> events() const { return events_; }
  [[nodiscard]] EventIndex event_count() const { return static_cast<EventIndex>(events_.size()); }
  [[nodiscard]] EventIndex first_event() const override { return 0; }
  [[nodiscard]] EventIndex end_event() const override { return event_count(); }
  [[nodiscard]] std::vector<FailedRequest> failed_requests() const override;
  [[nodiscard]] const Peak& peak() const override { return peak_; }
  [[nodiscard]] const PeakLevels& peak_levels() const override { return peak_levels_; }
  [[nodiscard]] const RebuildCounts& counts() const { return counts_; }
  [[nodiscard]] std::span<const BlockLife> lives() const { return lives_; }

  void walk(CourseListener& listener) const override;
  void visit_states_until(std::span<const EventIndex> targets,
                          const std::function<bool(EventIndex, HeapState&)>& use) const override;

 private:
  class Walker;
  class LevelWalk;
  class CourseWalk;

  void find_peaks(std::span<const std::int32_t> plain_of_life);

  const Recording& recording_;
  std::int32_t device_;
  std::span<const Event> events_;
  SegmentHistory segments_;
  PlaceIndex places_;
  LargeVector<BlockLife> lives_;
  LargeVector<LifeId> life_of_event_;  ///< For alloc and free events; kNoLife where unmatched.
  std::vector<LifeId> lives_at_start_;
  Peak peak_;
  PeakLevels peak_levels_;
  RebuildCounts counts_;
};

}  // namespace fragscope::model
