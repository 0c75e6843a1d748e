// SPDX-License-Identifier: Apache-2.0
// The course of a snapshot's heap. Annotations have times of their own; they stand in front of the
// first event that is not earlier, and ends behind the last that is not later.
#include "analyzer/model/course/course.hpp"
#include "analyzer/model/timeline.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace fragscope::model {

class Timeline::CourseWalk {
 public:
  CourseWalk(const Timeline& timeline, CourseListener& listener)
      : timeline_(timeline)
      , listener_(listener)
      , life_at_(timeline.counts_.allocs_on_live_blocks > 0 ? timeline.places_.size() : 0, kNoLife)
      , mapped_(timeline.segments_.mapped_at_start()) {
    for (const PlainSegment& plain : timeline.segments_.plain()) {
      if (plain.alloc_event == kBeforeFirst) now_.reserved_bytes += plain.size_bytes;
    }
    for (const auto& [begin, end] : mapped_)
      now_.reserved_bytes += end - begin;
    for (const LifeId id : timeline.lives_at_start_) {
      begin(id);
      if (life(id).free_requested_event == kBeforeFirst) take(now_.allocated_bytes, life(id));
    }
    for (const Annotation& each : timeline.recording_.annotations) {
      const bool is_here = each.device == timeline.device_ && each.time_us != kNoTime;
      if (is_here) marks_.push_back(&each);
    }
    std::ranges::stable_sort(marks_, {}, &Annotation::time_us);
  }

  void run() {
    listener_.begin(kBeforeFirst, now_, [this] { return state_at_start(); });
    const EventIndex end = timeline_.event_count();
    for (EventIndex index = 0; index < end; ++index) {
      const Event& event = timeline_.events_[static_cast<std::size_t>(index)];
      if (next_mark_ < marks_.size() && event.time_us != kNoTime) tell_marks(event.time_us, index);
      step(index, event);
    }
    while (next_mark_ < marks_.size())
      tell_mark(end - 1);
  }

 private:
  [[nodiscard]] const BlockLife& life(LifeId id) const { return timeline_.lives_[index_of(id)]; }

  [[nodiscard]] HeapState state_at_start() const {
    HeapState start;
    timeline_.visit_states_until(std::array{EventIndex{0}}, [&start](EventIndex, HeapState& state) {
      start = std::move(state);
      return false;
    });
    return start;
  }

  static void add(Bounds& sum, const BlockLife& life) {
    sum.low += life.size_bytes;
    sum.high += life.size_bytes + life.slack_bytes;
  }
  static void take(Bounds& sum, const BlockLife& life) {
    sum.low -= std::min(sum.low, life.size_bytes);
    sum.high -= std::min(sum.high, life.size_bytes + life.slack_bytes);
  }

  void tell_marks(std::int64_t time_us, EventIndex index) {
    while (next_mark_ < marks_.size()) {
      const Annotation& mark = *marks_[next_mark_];
      if (mark.time_us > time_us || (mark.time_us == time_us && !mark.begins)) return;
      tell_mark(index - 1);
    }
  }

  void tell_mark(EventIndex behind) {
    const Annotation& mark = *marks_[next_mark_++];
    listener_.mark({behind,
                    mark.time_us,
                    timeline_.recording_.strings.view(mark.name),
                    mark.begins ? MarkPhase::kBegin : MarkPhase::kEnd,
                    true,
                    0});
  }

  void step(EventIndex index, const Event& event) {
    CourseStep told;
    told.event = index;
    told.requested_bytes = event.size_bytes;
    told.stack = event.stack;
    told.stream = event.stream;
    const LifeId id = timeline_.life_of_event_[static_cast<std::size_t>(index)];
    if (id != kNoLife) {
      told.kind = move(index, id);
      concern(told, life(id));
    } else if (next_change_ < timeline_.segments_.changes().size() &&
               timeline_.segments_.changes()[next_change_] == index) {
      if (!change_segment(next_change_++, event, told)) return;
    } else if (event.action == Action::kOom) {
      told.kind = CourseKind::kFailure;
    } else {
      return;
    }
    listener_.step(told, now_);
  }

  void concern(CourseStep& told, const BlockLife& block) const {
    told.address = timeline_.places_.address(block.place);
    told.size_bytes = block.size_bytes;
  }

  CourseKind move(EventIndex index, LifeId id) {
    const BlockLife& at = life(id);
    if (at.alloc_event == index) {
      if (!life_at_.empty()) {
        const LifeId before = life_at_[at.place];
        // A life whose free is missing ends where the next one at its place begins.
        if (before != kNoLife && life(before).free_completed_event == index) {
          end(before, index);
          CourseStep told;
          told.event = index;
          told.kind = CourseKind::kComplete;
          concern(told, life(before));
          listener_.step(told, now_);
        }
      }
      begin(id);
      return CourseKind::kAlloc;
    }
    if (at.free_completed_event == index) {
      end(id, index);
      return CourseKind::kComplete;
    }
    if (at.free_requested_event == index) take(now_.allocated_bytes, at);
    return CourseKind::kFree;
  }

  void begin(LifeId id) {
    const BlockLife& begun = life(id);
    if (!life_at_.empty()) life_at_[begun.place] = id;
    add(now_.allocated_bytes, begun);
    add(now_.active_bytes, begun);
    now_.requested_bytes += begun.requested_bytes;
  }

  void end(LifeId id, EventIndex index) {
    const BlockLife& ended = life(id);
    if (ended.free_requested_event == index) take(now_.allocated_bytes, ended);
    take(now_.active_bytes, ended);
    now_.requested_bytes -= std::min(now_.requested_bytes, ended.requested_bytes);
  }

  /// False: nothing came or went.
  bool change_segment(std::size_t change, const Event& event, CourseStep& told) {
    const std::uint64_t end = event.address + event.size_bytes;
    const std::int32_t plain = timeline_.segments_.plain_of_change(change);
    bool comes = false;
    bool goes = false;
    if (plain >= 0) {
      comes = event.action == Action::kSegmentAlloc;
      goes = !comes;
      told.home = timeline_.segments_.plain()[static_cast<std::size_t>(plain)].home;
    } else if (event.action == Action::kSegmentMap) {
      comes = map_range(mapped_, event.address, end);
    } else if (event.action == Action::kSegmentUnmap) {
      goes = unmap_range(mapped_, event.address, end);
    }
    if (!comes && !goes) return false;
    std::uint64_t& reserved = now_.reserved_bytes;
    reserved =
        comes ? reserved + event.size_bytes : reserved - std::min(reserved, event.size_bytes);
    const Area* const area = plain < 0 ? timeline_.segments_.area_at(event.address) : nullptr;
    if (area != nullptr) told.home = area->owner_before(told.event + 1).home;
    if (told.home.pool == kUnknownPool) told.home.pool = kDefaultPool;
    told.kind = CourseKind::kDevice;
    told.address = event.address;
    told.size_bytes = event.size_bytes;
    told.comes = comes;
    return true;
  }

  const Timeline& timeline_;
  CourseListener& listener_;
  std::vector<LifeId> life_at_;  // by place, the latest; empty if no free is missing
  MappedRanges mapped_;
  std::size_t next_change_ = 0;
  CourseLevels now_;
  std::vector<const Annotation*> marks_;
  std::size_t next_mark_ = 0;
};

void Timeline::walk(CourseListener& listener) const {
  CourseWalk(*this, listener).run();
}

}  // namespace fragscope::model
