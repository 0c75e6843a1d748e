// SPDX-License-Identifier: Apache-2.0
// One device's heap over time, whatever it was recorded with: which requests failed, when most was
// allocated, and the heap before any event. `Timeline` makes it from a PyTorch snapshot,
// `TraceHistory` from a trace of ours. Not thread-safe.
#pragma once

#include "analyzer/model/course/course.hpp"
#include "analyzer/model/heap_state.hpp"
#include "analyzer/recording/ids.hpp"
#include "analyzer/recording/recording.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace fragscope::model {

/// The most allocated moment: the state after `event`, -1 for the state before the first event.
struct Peak {
  EventIndex event = kBeforeFirst;
  std::uint64_t allocated_bytes = 0;
  std::optional<std::vector<Stage>> stages;  ///< That the program was in; none: it cannot say so.
};

/// The highest each layer stood in the window, each at a moment of its own; what PyTorch's
/// statistics call peaks, with their meanings, if the recording began before the first allocation.
struct PeakLevels {
  std::uint64_t reserved_bytes = 0;
  Bounds allocated_bytes;
  Bounds active_bytes;
  std::uint64_t requested_active_bytes = 0;
  Bounds inactive_split_bytes;
};

/// A request that was refused, with what the recording knows of it.
struct FailedRequest {
  EventIndex event = 0;
  std::int64_t time_us = kNoTime;
  std::uint64_t size_bytes = 0;  ///< Rounded.
  std::optional<std::uint64_t> asked_bytes;
  std::int64_t stream = 0;
  PoolIndex pool = kUnknownPool;
  StackId stack = kNoStack;
  std::optional<std::uint64_t> device_free_bytes;
  std::optional<std::uint64_t> device_total_bytes;
  std::optional<std::uint64_t> limit_bytes;
  std::optional<DeviceUse> use;  ///< Of the device, just after it.
  std::vector<Stage> stages;     ///< That were open, of all threads; the earliest first.
  std::uint32_t thread = 0;      ///< That asked, by the operating system's id; 0: not known.
};

class History {
 public:
  History() = default;
  History(const History&) = delete;
  History& operator=(const History&) = delete;
  virtual ~History() = default;

  [[nodiscard]] virtual std::int32_t device() const = 0;
  /// Event numbers go from the first to before the end; equal if there are none.
  [[nodiscard]] virtual EventIndex first_event() const = 0;
  [[nodiscard]] virtual EventIndex end_event() const = 0;
  [[nodiscard]] bool has_events() const { return first_event() < end_event(); }

  /// In the order of events.
  [[nodiscard]] virtual std::vector<FailedRequest> failed_requests() const = 0;
  [[nodiscard]] virtual const Peak& peak() const = 0;
  [[nodiscard]] virtual const PeakLevels& peak_levels() const = 0;

  /// Whether the recording shows the heap before this event, one from the first to the end.
  [[nodiscard]] virtual bool is_known_before(EventIndex /*event*/) const { return true; }

  /// Tells `listener` all there is, in order, in one pass over the events.
  virtual void walk(CourseListener& listener) const = 0;

  /// Calls `use` with the state before each of `targets` (event numbers, ascending; `end_event()`
  /// is the state after the last), in one walk, until it gives false. The state is the callee's to
  /// change. Each must be known.
  virtual void visit_states_until(std::span<const EventIndex> targets,
                                  const std::function<bool(EventIndex, HeapState&)>& use) const = 0;
};

}  // namespace fragscope::model
