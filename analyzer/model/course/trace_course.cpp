// SPDX-License-Identifier: Apache-2.0
// The course of a heap in a trace of ours.
#include "analyzer/model/course/course.hpp"
#include "analyzer/model/trace/trace_history.hpp"
#include "trace/ring/clock.hpp"

#include <optional>

namespace fragscope::model {
namespace {

using trace::Record;
using trace::RecordKind;

CourseLevels levels_of(const TraceLevels& levels) {
  return {levels.reserved, exactly(levels.allocated), exactly(levels.active), levels.requested};
}

std::optional<CourseKind> kind_of(RecordKind kind) {
  switch (kind) {
    case RecordKind::kAlloc:
      return CourseKind::kAlloc;
    case RecordKind::kFreeRequested:
      return CourseKind::kFree;
    case RecordKind::kFreeCompleted:
      return CourseKind::kComplete;
    case RecordKind::kSegmentAlloc:
    case RecordKind::kSegmentFree:
    case RecordKind::kSegmentMap:
    case RecordKind::kSegmentUnmap:
      return CourseKind::kDevice;
    case RecordKind::kOutOfMemory:
      return CourseKind::kFailure;
    default:
      return std::nullopt;
  }
}

}  // namespace

class TraceHistory::CourseWalk {
 public:
  CourseWalk(const TraceHistory& history, CourseListener& listener)
      : history_(history)
      , listener_(listener)
      , heap_(history.new_heap()) {
    heap_.listen([this](const Record& record) { note(record); });
  }

  void begin(std::uint64_t first) {
    next_ = first;
    if (first != 0 || header().beginning != trace::TraceBeginning::kEmpty) return;
    heap_.begin_empty();
    look(kBeforeFirst);
  }

  /// Records up to this one are missing.
  void skip_to(std::uint64_t number) {
    if (number == next_) return;
    heap_.lose();
    listener_.lose(static_cast<EventIndex>(next_) - 1, true);
    is_known_ = false;
    next_ = number;
  }

  void take(const Record& record) {
    const auto event = static_cast<EventIndex>(next_++);
    if (record.device != static_cast<std::uint8_t>(history_.device_)) return;
    const std::uint64_t contradictions = heap_.contradictions();
    const std::uint64_t keyframes = heap_.keyframes();
    const bool was_empty = heap_.levels().reserved == 0;
    completed_ = record;
    heap_.apply(record);
    look(event);
    // One that shows what the heap was takes nothing's place.
    if (heap_.keyframes() != keyframes) {
      replace(event, was_empty, heap_.contradictions() != contradictions);
    }
    if (record.kind == RecordKind::kMark) return tell_mark(record, event);
    const auto kind = kind_of(record.kind);
    const bool was_taken = heap_.contradictions() == contradictions;
    if (kind && is_known_ && was_taken) {
      listener_.step(step_of(completed_, *kind, event), levels_of(heap_.levels()));
    }
  }

 private:
  [[nodiscard]] const trace::Header& header() const { return history_.reader_->header(); }

  // A record of PyTorch's own allocator is completed on the way, and others are derived from it.
  void note(const Record& record) {
    if (record.kind == completed_.kind) completed_ = record;
  }

  /// A keyframe may show another heap than the one that was known: of a recording that begins in
  /// the middle it is the first that is seen, otherwise what was known was wrong.
  void replace(EventIndex event, bool was_empty, bool was_wrong) {
    if (!is_known_ || begun_at_ == event || (!was_empty && !was_wrong)) return;
    if (was_wrong) listener_.lose(event, false);
    begin_listener(event);
  }

  void begin_listener(EventIndex event) {
    begun_at_ = event;
    listener_.begin(
        event, levels_of(heap_.levels()), [this] { return heap_.state(history_.names_); });
  }

  // Whether the heap has become known, or is known no more.
  void look(EventIndex event) {
    if (heap_.is_known() == is_known_) return;
    is_known_ = heap_.is_known();
    if (is_known_) {
      begin_listener(event);
    } else {
      listener_.lose(event, false);
    }
  }

  [[nodiscard]] CourseStep step_of(const Record& record, CourseKind kind, EventIndex event) const {
    CourseStep step;
    step.event = event;
    step.kind = kind;
    step.thread = record.thread;
    if (kind != CourseKind::kFailure) {
      step.address = record.address;
      step.size_bytes = record.size;
    }
    if (kind == CourseKind::kFree || kind == CourseKind::kComplete) return step;
    step.stack = history_.names_.stack(record.stack);
    if (kind == CourseKind::kDevice) {
      step.comes =
          record.kind == RecordKind::kSegmentAlloc || record.kind == RecordKind::kSegmentMap;
      step.home = home_of(record);
      return step;
    }
    step.requested_bytes = record.other;
    step.stream = history_.names_.stream(record.stream);
    return step;
  }

  [[nodiscard]] Home home_of(const Record& record) const {
    const bool is_large = (record.flags & trace::kFlagLarge) != 0;
    return {history_.names_.pool(record.pool),
            is_large ? SizeClass::kLarge : SizeClass::kSmall,
            record.kind == RecordKind::kSegmentMap || record.kind == RecordKind::kSegmentUnmap,
            history_.names_.stream(record.stream)};
  }

  void tell_mark(const Record& record, EventIndex event) {
    CourseMark mark;
    mark.event = event;
    mark.time_us = static_cast<std::int64_t>(trace::unix_ns_at(header(), record.ticks) / 1000);
    mark.name = history_.reader_->table().text(record.address);
    mark.phase = record.size == 1   ? MarkPhase::kBegin
                 : record.size == 2 ? MarkPhase::kEnd
                                    : MarkPhase::kPoint;
    mark.is_annotation = record.other == 1;
    mark.thread = record.thread;
    listener_.mark(mark);
  }

  const TraceHistory& history_;
  CourseListener& listener_;
  RecordedHeap heap_;
  Record completed_;        // what the heap made of the last record
  std::uint64_t next_ = 0;  // the record that comes
  EventIndex begun_at_ = kBeforeFirst;
  bool is_known_ = false;
};

void TraceHistory::walk(CourseListener& listener) const {
  CourseWalk walk(*this, listener);
  walk.begin(reader_->first_record());
  for (std::size_t i = 0; i < reader_->chunk_count(); ++i) {
    walk.skip_to(reader_->first_of_chunk(i));
    const auto records = reader_->records(i);
    if (!records) continue;  // what comes next finds a gap
    for (const Record& record : *records)
      walk.take(record);
  }
  walk.skip_to(reader_->end_record());
}

}  // namespace fragscope::model
