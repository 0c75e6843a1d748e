// SPDX-License-Identifier: Apache-2.0
// One device's heap as it goes: how much each layer holds after each event, which range of
// addresses the event concerns, and what the program said of itself on the way. Made by
// `History::walk` in one pass over the events, from a PyTorch snapshot (`timeline_course.cpp`) or a
// trace of ours (`trace_course.cpp`). What is asked of single moments, such as who holds what, is
// asked of `History::visit_states_until`.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/recording/ids.hpp"
#include "analyzer/recording/recording.hpp"

#include <cstdint>
#include <functional>
#include <string_view>

namespace fragscope::model {

/// The layers at one moment. They overlap and are never added.
struct CourseLevels {
  std::uint64_t reserved_bytes = 0;
  Bounds allocated_bytes;
  Bounds active_bytes;                ///< Live and pending.
  std::uint64_t requested_bytes = 0;  ///< Of active blocks.

  friend bool operator==(const CourseLevels&, const CourseLevels&) = default;
};

enum class CourseKind : std::uint8_t {
  kAlloc,
  kFree,      ///< The program's; the block may wait for other streams.
  kComplete,  ///< Of a free.
  kDevice,    ///< A segment or pages came or went.
  kFailure,   ///< A request was refused.
};

/// An event that changed something, or a failure.
struct CourseStep {
  EventIndex event = 0;
  CourseKind kind = CourseKind::kAlloc;
  std::uint64_t requested_bytes = 0;  ///< Of kAlloc and kFailure.
  StackId stack = kNoStack;           ///< Of whoever asked, also for a segment; not of frees.
  std::int64_t stream = 0;            ///< Of kAlloc and kFailure.
  std::uint32_t thread = 0;           ///< The operating system's id; 0: not known.
  /// Which addresses it concerns; none of a failure. A block whose size is a bound is told with the
  /// lower end.
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  bool comes = false;  ///< Of kDevice: from the driver; otherwise back to it.
  Home home;           ///< Of the range of kDevice.
};

/// The heap where a course begins; made only where it is asked for.
using StateSource = std::function<HeapState()>;

enum class MarkPhase : std::uint8_t { kPoint, kBegin, kEnd };

/// What the program said, or an annotation of PyTorch's. `name` is valid during the call.
struct CourseMark {
  EventIndex event = 0;  ///< The last event before it.
  std::int64_t time_us = kNoTime;
  std::string_view name;
  MarkPhase phase = MarkPhase::kPoint;
  bool is_annotation = false;
  std::uint32_t thread = 0;
};

class CourseListener {
 public:
  CourseListener() = default;
  CourseListener(const CourseListener&) = delete;
  CourseListener& operator=(const CourseListener&) = delete;
  virtual ~CourseListener() = default;

  /// The heap is known from behind this event on.
  virtual void begin(EventIndex event, const CourseLevels& levels, const StateSource& state) = 0;
  /// The levels are those behind it.
  virtual void step(const CourseStep& step, const CourseLevels& levels) = 0;
  virtual void mark(const CourseMark& mark) = 0;
  /// The heap is not known behind this event, until `begin`.
  virtual void lose(EventIndex event, bool marks_are_missing) = 0;
};

}  // namespace fragscope::model
