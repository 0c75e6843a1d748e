// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/timeline.hpp"

#include "analyzer/model/timeline_rebuilder.hpp"
#include "trace/check.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace fragscope::model {
namespace {

std::span<const Segment> segments_of(const Recording& recording, std::int32_t device) {
  const auto& segments = recording.segments;
  const auto first = std::ranges::lower_bound(segments, device, {}, &Segment::device);
  const auto last = std::ranges::upper_bound(segments, device, {}, &Segment::device);
  return {first, last};
}

std::span<const Event> events_of(const Recording& recording, std::int32_t device) {
  for (const DeviceTrace& trace : recording.traces) {
    if (trace.device == device) return recording.events_of(trace);
  }
  return {};
}

}  // namespace

/// Moves forward through the trace, keeping which block lies where.
class Timeline::Walker {
 public:
  explicit Walker(const Timeline& timeline)
      : timeline_(timeline)
      , occupied_(timeline.places_.size())
      , life_at_(timeline.places_.size(), kNoLife)
      , mapped_(timeline.segments_.mapped_at_start()) {
    const auto plain = timeline.segments_.plain();
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (plain[i].alloc_event == kBeforeFirst) present_.emplace(plain[i].address, i);
    }
    for (const LifeId life : timeline.lives_at_start_)
      occupy(life);
  }

  /// Moves to the state before `target`.
  void advance(EventIndex target) {
    for (; next_ < target; ++next_)
      step(next_);
    while (next_change_ < timeline_.segments_.changes().size() &&
           timeline_.segments_.changes()[next_change_] < target) {
      change_segment(next_change_++);
    }
  }

  [[nodiscard]] HeapState state() const {
    HeapState state;
    state.has_requested_sizes = timeline_.recording_.has_requested_sizes;
    list_segments(state);
    Place at = occupied_.next(0);
    for (HeapSegment& segment : state.segments)
      at = fill(segment, at, state);
    for (; at != kNoPlace; at = following(at))
      ++state.unplaced_count;
    return state;
  }

 private:
  void occupy(LifeId id) {
    const Place place = timeline_.lives_[index_of(id)].place;
    occupied_.insert(place);
    life_at_[place] = id;
  }

  void step(EventIndex index) {
    const LifeId id = timeline_.life_of_event_[static_cast<std::size_t>(index)];
    if (id == kNoLife) return;
    const BlockLife& life = timeline_.lives_[index_of(id)];
    // A life that ends where another begins (a missing free) has given up its place already.
    if (life.free_completed_event == index && life_at_[life.place] == id) {
      occupied_.erase(life.place);
      life_at_[life.place] = kNoLife;
    } else if (life.alloc_event == index) {
      occupy(id);
    }
  }

  void change_segment(std::size_t change) {
    const EventIndex index = timeline_.segments_.changes()[change];
    const Event& event = timeline_.events_[static_cast<std::size_t>(index)];
    const std::int32_t plain = timeline_.segments_.plain_of_change(change);
    if (plain >= 0) {
      if (event.action == Action::kSegmentAlloc) {
        present_.insert_or_assign(event.address, static_cast<std::size_t>(plain));
      } else {
        present_.erase(event.address);
      }
    } else if (event.action == Action::kSegmentMap) {
      static_cast<void>(map_range(mapped_, event.address, event.address + event.size_bytes));
    } else if (event.action == Action::kSegmentUnmap) {
      static_cast<void>(unmap_range(mapped_, event.address, event.address + event.size_bytes));
    }
  }

  static Home known(Home home) {
    if (home.pool == kUnknownPool) home.pool = kDefaultPool;
    return home;
  }

  void list_segments(HeapState& state) const {
    const auto plain = timeline_.segments_.plain();
    for (const auto& [address, i] : present_) {
      const bool assumed = plain[i].home.pool == kUnknownPool;
      state.segments.push_back({address, plain[i].size_bytes, known(plain[i].home), 0, 0, assumed});
    }
    for (const auto& [begin, end] : mapped_) {
      // A mapped range that spans two areas is two segments, as PyTorch lists them.
      for (std::uint64_t at = begin; at < end;) {
        const Area* area = timeline_.segments_.area_at(at);
        if (area == nullptr) break;
        const std::uint64_t until = std::min(end, area->end);
        const AreaOwner& owner = area->owner_before(next_);
        const bool assumed = owner.home.pool == kUnknownPool;
        state.segments.push_back({at, until - at, known(owner.home), 0, 0, assumed});
        at = until;
      }
    }
    std::ranges::sort(state.segments, {}, &HeapSegment::address);
    for (const Area& area : timeline_.segments_.areas()) {
      state.expandable_starts.push_back({area.begin, known(area.owner_before(next_).home)});
    }
  }

  [[nodiscard]] Place following(Place place) const {
    return place + 1 < timeline_.places_.size() ? occupied_.next(place + 1) : kNoPlace;
  }

  static void add_hole(HeapState& state,
                       std::uint64_t begin,
                       std::uint64_t end,
                       std::uint32_t slack) {
    if (begin >= end) return;
    HeapBlock hole;
    hole.address = begin;
    hole.size_bytes = end - begin;
    hole.slack_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(slack, end - begin));
    state.blocks.push_back(hole);
  }

  // Tiles one segment with the blocks that start in it and the holes between; `at` is the first
  // occupied place not used yet. Gives the first one behind the segment.
  Place fill(HeapSegment& segment, Place at, HeapState& state) const {
    segment.first_block = static_cast<std::uint32_t>(state.blocks.size());
    const std::uint64_t end = segment.address + segment.size_bytes;
    std::uint64_t covered = segment.address;
    std::uint32_t slack = 0;
    for (; at != kNoPlace && timeline_.places_.address(at) < end; at = following(at)) {
      const std::uint64_t begin = timeline_.places_.address(at);
      if (begin < covered) {
        ++state.unplaced_count;  // in front of the segment, or inside another block
        continue;
      }
      add_hole(state, covered, begin, slack);
      const BlockLife& life = timeline_.lives_[index_of(life_at_[at])];
      const std::uint64_t room = end - begin;
      const Place behind = following(at);
      const std::uint64_t to_next =
          behind == kNoPlace ? room : std::min(room, timeline_.places_.address(behind) - begin);
      HeapBlock block;
      block.address = begin;
      block.size_bytes = std::min(life.size_bytes, to_next);
      block.requested_bytes = life.requested_bytes;
      block.slack_bytes = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(life.slack_bytes, to_next - block.size_bytes));
      block.stack = life.stack;
      block.state = life.free_requested_event < next_ ? BlockState::kPending : BlockState::kLive;
      state.blocks.push_back(block);
      covered = begin + block.size_bytes;
      slack = block.slack_bytes;
    }
    add_hole(state, covered, end, slack);
    segment.block_count = static_cast<std::uint32_t>(state.blocks.size()) - segment.first_block;
    return at;
  }

  const Timeline& timeline_;
  PlaceSet occupied_;
  std::vector<LifeId> life_at_;
  std::map<std::uint64_t, std::size_t> present_;  // plain segments: address -> index
  MappedRanges mapped_;
  EventIndex next_ = 0;
  std::size_t next_change_ = 0;
};

/// Moves forward through the trace, keeping the sums alone. Where sizes are bounds it takes one end
/// of all of them.
class Timeline::LevelWalk {
 public:
  LevelWalk(const Timeline& timeline, std::span<const std::int32_t> plain_of_life, bool upper_ends)
      : timeline_(timeline)
      , plain_of_life_(plain_of_life)
      , upper_ends_(upper_ends)
      , life_at_(timeline.counts_.allocs_on_live_blocks > 0 ? timeline.places_.size() : 0, kNoLife)
      , used_(timeline.segments_.plain().size(), 0)
      , mapped_(timeline.segments_.mapped_at_start()) {
    for (const PlainSegment& plain : timeline.segments_.plain()) {
      if (plain.alloc_event == kBeforeFirst) now_.reserved += as_signed(plain.size_bytes);
    }
    for (const auto& [begin, end] : mapped_)
      now_.reserved += as_signed(end - begin);
    for (const LifeId id : timeline.lives_at_start_) {
      begin(id);
      if (life(id).free_requested_event == kBeforeFirst) now_.allocated -= size(life(id));
    }
    most_ = now_;
  }

  void run() {
    const EventIndex end = timeline_.event_count();
    for (EventIndex index = 0; index < end; ++index) {
      const LifeId id = timeline_.life_of_event_[static_cast<std::size_t>(index)];
      if (id != kNoLife) {
        step(index, id);
      } else if (next_change_ < timeline_.segments_.changes().size() &&
                 timeline_.segments_.changes()[next_change_] == index) {
        change_segment(next_change_++);
      }
    }
  }

  struct Levels {
    std::int64_t reserved = 0;
    std::int64_t allocated = 0;
    std::int64_t active = 0;
    std::int64_t requested = 0;
    std::int64_t inactive_split = 0;
  };
  [[nodiscard]] const Levels& most() const { return most_; }
  [[nodiscard]] EventIndex most_allocated_event() const { return most_allocated_event_; }

 private:
  static std::int64_t as_signed(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); }
  [[nodiscard]] const BlockLife& life(LifeId id) const { return timeline_.lives_[index_of(id)]; }
  [[nodiscard]] std::int64_t size(const BlockLife& life) const {
    return as_signed(life.size_bytes + (upper_ends_ ? life.slack_bytes : 0));
  }

  void step(EventIndex index, LifeId id) {
    const BlockLife& at = life(id);
    if (at.alloc_event == index) {
      if (!life_at_.empty()) end_without_free(life_at_[at.place], index);
      begin(id);
      if (now_.allocated > most_.allocated) {
        most_.allocated = now_.allocated;
        most_allocated_event_ = index;
      }
      most_.active = std::max(most_.active, now_.active);
      most_.requested = std::max(most_.requested, now_.requested);
    } else if (at.free_completed_event == index) {
      end(id, index);
    } else if (at.free_requested_event == index) {
      now_.allocated -= size(at);
    }
    most_.inactive_split = std::max(most_.inactive_split, now_.inactive_split);
  }

  void begin(LifeId id) {
    const BlockLife& begun = life(id);
    if (!life_at_.empty()) life_at_[begun.place] = id;
    now_.allocated += size(begun);
    now_.active += size(begun);
    now_.requested += as_signed(begun.requested_bytes);
    use(id, size(begun));
  }

  /// A life whose free is missing ends where the next one at its place begins.
  void end_without_free(LifeId before, EventIndex index) {
    if (before != kNoLife && life(before).free_completed_event == index) end(before, index);
  }

  /// Its free completes with event `index`.
  void end(LifeId id, EventIndex index) {
    const BlockLife& ended = life(id);
    if (ended.free_requested_event == index) now_.allocated -= size(ended);
    now_.active -= size(ended);
    now_.requested -= as_signed(ended.requested_bytes);
    use(id, -size(ended));
  }

  // In a plain segment every free byte beside a used block is split; a free segment is whole.
  void use(LifeId id, std::int64_t bytes) {
    const std::int32_t plain = plain_of_life_[index_of(id)];
    if (plain < 0) return;
    const auto at = static_cast<std::size_t>(plain);
    now_.inactive_split -= split_bytes(at);
    used_[at] += bytes;
    now_.inactive_split += split_bytes(at);
  }

  [[nodiscard]] std::int64_t split_bytes(std::size_t plain) const {
    if (used_[plain] <= 0) return 0;
    const std::int64_t all = as_signed(timeline_.segments_.plain()[plain].size_bytes);
    return std::max<std::int64_t>(all - used_[plain], 0);
  }

  void change_segment(std::size_t change) {
    const EventIndex index = timeline_.segments_.changes()[change];
    const Event& event = timeline_.events_[static_cast<std::size_t>(index)];
    const std::int64_t bytes = as_signed(event.size_bytes);
    const std::uint64_t end = event.address + event.size_bytes;
    if (timeline_.segments_.plain_of_change(change) >= 0) {
      now_.reserved += event.action == Action::kSegmentAlloc ? bytes : -bytes;
    } else if (event.action == Action::kSegmentMap) {
      now_.reserved += map_range(mapped_, event.address, end) ? bytes : 0;
    } else if (event.action == Action::kSegmentUnmap) {
      now_.reserved -= unmap_range(mapped_, event.address, end) ? bytes : 0;
    }
    most_.reserved = std::max(most_.reserved, now_.reserved);
  }

  const Timeline& timeline_;
  std::span<const std::int32_t> plain_of_life_;
  bool upper_ends_;
  std::vector<LifeId> life_at_;     // by place, the latest; empty if no free is missing
  std::vector<std::int64_t> used_;  // by plain segment: live and pending bytes
  MappedRanges mapped_;
  std::size_t next_change_ = 0;
  Levels now_;
  Levels most_;
  EventIndex most_allocated_event_ = kBeforeFirst;
};

Timeline::Timeline(const Recording& recording, std::int32_t device, RoundingRule rule)
    : recording_(recording)
    , device_(device)
    , events_(events_of(recording, device))
    , segments_(segments_of(recording, device), events_, recording.settings.rules) {
  RebuiltHistory rebuilt =
      rebuild_history(recording, segments_of(recording, device), events_, rule, segments_);
  places_ = std::move(rebuilt.places);
  lives_ = std::move(rebuilt.lives);
  life_of_event_ = std::move(rebuilt.life_of_event);
  lives_at_start_ = std::move(rebuilt.lives_at_start);
  counts_ = rebuilt.counts;
  find_peaks(rebuilt.plain_of_life);
}

void Timeline::find_peaks(std::span<const std::int32_t> plain_of_life) {
  const auto unsigned_of = [](std::int64_t bytes) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0));
  };
  const auto walk = [&](bool upper_ends) {
    LevelWalk levels(*this, plain_of_life, upper_ends);
    levels.run();
    return std::pair{levels.most(), levels.most_allocated_event()};
  };
  const auto [low, event] = walk(false);
  const LevelWalk::Levels high = counts_.bounded_sizes > 0 ? walk(true).first : low;
  peak_ = {event, unsigned_of(low.allocated), std::nullopt};
  peak_levels_ = {unsigned_of(low.reserved),
                  {unsigned_of(low.allocated), unsigned_of(high.allocated)},
                  {unsigned_of(low.active), unsigned_of(high.active)},
                  unsigned_of(low.requested),
                  // The larger the blocks, the less is left beside them.
                  {unsigned_of(high.inactive_split), unsigned_of(low.inactive_split)}};
}

std::vector<FailedRequest> Timeline::failed_requests() const {
  std::vector<FailedRequest> failed;
  for (std::size_t index = 0; index < events_.size(); ++index) {
    const Event& event = events_[index];
    if (event.action != Action::kOom) continue;
    FailedRequest& request = failed.emplace_back();
    request.event = static_cast<EventIndex>(index);
    request.time_us = event.time_us;
    request.size_bytes = event.size_bytes;
    request.stream = event.stream;
    request.pool = event.pool;
    request.stack = event.stack;
    if (event.has_address) request.device_free_bytes = event.address;
  }
  return failed;
}

void Timeline::visit_states_until(std::span<const EventIndex> targets,
                                  const std::function<bool(EventIndex, HeapState&)>& use) const {
  Walker walker(*this);
  EventIndex before = kBeforeFirst;
  for (const EventIndex target : targets) {
    FRAGSCOPE_CHECK(target >= before && target <= event_count());
    before = target;
    walker.advance(target);
    HeapState state = walker.state();
    if (!use(target, state)) return;
  }
}

}  // namespace fragscope::model
