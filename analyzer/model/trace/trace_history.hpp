// SPDX-License-Identifier: Apache-2.0
// One device's heap over time, from a trace file. Opening walks over all records once and keeps of
// them only failures, peaks and where a walk can begin (the start, or a keyframe); a state is made
// by walking on from the last such place. Memory does not grow with the number of records. Not
// thread-safe.
#pragma once

#include "analyzer/model/history.hpp"
#include "analyzer/model/trace/heap/recorded_heap.hpp"
#include "analyzer/model/trace/trace_names.hpp"
#include "analyzer/recording/recording.hpp"
#include "trace/file/trace_reader.hpp"
#include "trace/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fragscope::model {

class TraceHistory final : public History {
 public:
  /// `bytes` is a whole trace file and outlives this. Fills `recording`: names, settings, what
  /// weakens the evidence, and the heap at the end. Fails: a damaged or foreign file; nothing that
  /// can be replayed.
  [[nodiscard]] static Result<std::unique_ptr<TraceHistory>> open(
      std::span<const std::byte> bytes,
      Recording& recording,
      const trace::ReadProgress& progress = {});

  [[nodiscard]] std::int32_t device() const override { return device_; }
  [[nodiscard]] EventIndex first_event() const override;
  [[nodiscard]] EventIndex end_event() const override;
  [[nodiscard]] std::vector<FailedRequest> failed_requests() const override { return failed_; }
  [[nodiscard]] const Peak& peak() const override { return peak_; }
  [[nodiscard]] const PeakLevels& peak_levels() const override { return levels_; }
  [[nodiscard]] bool is_known_before(EventIndex event) const override;
  void walk(CourseListener& listener) const override;
  void visit_states_until(std::span<const EventIndex> targets,
                          const std::function<bool(EventIndex, HeapState&)>& use) const override;

  /// The last stretch of records without a break: the heap is known before `begin` and everything
  /// up to `end` is there.
  struct Stretch {
    EventIndex begin = 0;
    EventIndex end = 0;
  };
  /// With more than `at_most` records it begins later, at a keyframe: with as many of them as that
  /// leaves, or at the last one.
  [[nodiscard]] Stretch last_stretch(std::uint64_t at_most = kAllRecords) const;
  static constexpr std::uint64_t kAllRecords = ~std::uint64_t{0};
  /// The stretch without its first request, if a keyframe stands within that: it found no memory,
  /// and waits for pending frees to give the cache back. What it asked the device before is not
  /// there any more.
  [[nodiscard]] Stretch of_whole_requests(Stretch stretch) const;
  /// Calls `visit` with the records of the stretch, each completed, and with those that were
  /// derived (`RecordedHeap::listen`).
  void visit_records(const Stretch& stretch,
                     const std::function<void(const trace::Record&)>& visit) const;
  [[nodiscard]] const trace::Header& header() const { return reader_->header(); }
  [[nodiscard]] const trace::Table& table() const { return reader_->table(); }
  [[nodiscard]] const TraceNames& names() const { return names_; }

 private:
  /// Where a walk can begin, and from which record on the heap is known then.
  struct Start {
    std::uint64_t record = 0;
    std::uint64_t known_from = 0;
    std::uint64_t settings = 0;  ///< In force there, by the id of their text.
  };
  /// Records before which the heap is not known: from `begin` to before `end`.
  struct Dark {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  /// What the walk over all records counts.
  struct Counts {
    std::uint64_t lost = 0;
    std::uint64_t unknown_kinds = 0;
    std::uint64_t other_devices = 0;
    std::uint64_t failures_in_the_dark = 0;  ///< Where the heap is not known.
    std::uint64_t settings = 0;
    std::uint64_t unknown_settings = 0;
    std::uint64_t unknown_homes = 0;  ///< Streams or pools that the table does not have.
  };
  class FirstWalk;
  class CourseWalk;

  TraceHistory(trace::TraceReader reader, Recording& recording);

  void walk_once(Recording& recording, const trace::ReadProgress& progress);
  using AddSignal = std::function<void(bool, const char*, const std::string&)>;
  void add_trust(Recording& recording) const;
  void add_trust_in_heap(const AddSignal& add_if) const;
  void add_trust_in_file(const AddSignal& add_if) const;
  void add_trust_in_names(const AddSignal& add_if) const;
  /// Requests that the header counts as failed and no record tells of.
  [[nodiscard]] std::uint64_t failures_missing() const;
  void set_end(Recording& recording) const;
  /// The last record before which the heap is known.
  [[nodiscard]] std::uint64_t last_known() const;
  [[nodiscard]] RecordedHeap new_heap() const;
  /// The last place where a walk can begin that knows the heap before this record.
  [[nodiscard]] const Start& start_before(std::uint64_t record) const;
  [[nodiscard]] RecordedHeap heap_at(const Start& start) const;
  [[nodiscard]] bool is_native() const;
  /// Moves the heap, which stands before record `from`, to before record `to`.
  void move(RecordedHeap& heap, std::uint64_t from, std::uint64_t to) const;

  std::unique_ptr<trace::TraceReader> reader_;  // changed by reading, not by what is read
  std::unique_ptr<EarlierKeyframes> earlier_;   // null: the trace has none
  TraceNames names_;
  std::int32_t device_ = 0;
  std::vector<Start> starts_;
  std::vector<FailedRequest> failed_;
  Peak peak_;
  PeakLevels levels_;
  Counts counts_;
  std::uint64_t keyframes_ = 0;
  std::uint64_t contradictions_ = 0;
  std::uint64_t first_contradiction_ = 0;
  std::vector<Dark> dark_;
  std::uint64_t damaged_chunks_ = 0;  ///< Of records, which could not be read.
  std::string damage_;                ///< Of the first of them.
};

}  // namespace fragscope::model
