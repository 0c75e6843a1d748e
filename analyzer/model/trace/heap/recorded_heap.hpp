// SPDX-License-Identifier: Apache-2.0
// A heap that follows a trace, whoever's decisions its records are: our allocator's say everything,
// those of PyTorch's own are completed first. Not thread-safe.
#pragma once

#include "analyzer/model/trace/heap/native_records.hpp"
#include "analyzer/model/trace/heap/trace_heap.hpp"
#include "trace/file/trace_reader.hpp"
#include "trace/format/header.hpp"
#include "trace/format/record.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace fragscope::model {

/// Keyframes that state the heap as it was some records before them. Reads the trace a second time,
/// so that it is no matter where the first reader stands.
class EarlierKeyframes {
 public:
  /// `reader` is this one's own.
  explicit EarlierKeyframes(trace::TraceReader reader);

  /// The keyframe that states the heap behind this record, with its begin and its end; empty if
  /// there is none.
  [[nodiscard]] std::vector<trace::Record> behind(std::uint64_t record);

 private:
  trace::TraceReader reader_;
  std::map<std::uint64_t, std::uint64_t> begins_;  // by the record behind which it holds
};

class RecordedHeap {
 public:
  /// All outlive this. `keyframes` may be null.
  RecordedHeap(const trace::Header& header, const trace::Table& table, EarlierKeyframes* keyframes);

  /// The process has just begun: there is no block.
  void begin_empty();
  /// Records are missing: nothing is known until the next keyframe.
  void lose();
  /// The settings in force, by the id of their text; 0: those of the header.
  void use_settings(std::uint64_t text);
  [[nodiscard]] std::uint64_t settings() const { return settings_; }
  /// Calls `listener` with each record, completed, and with those that were derived, which are all
  /// splits and merges of a trace of PyTorch's own allocator.
  void listen(std::function<void(const trace::Record&)> listener);
  /// Records in ascending order.
  void apply(const trace::Record& record);

  // As of `TraceHeap`.
  [[nodiscard]] bool is_known() const { return heap_->is_known(); }
  [[nodiscard]] std::uint64_t keyframes() const { return heap_->keyframes(); }
  [[nodiscard]] const TraceLevels& levels() const { return heap_->levels(); }
  [[nodiscard]] std::uint64_t contradictions() const { return heap_->contradictions(); }
  [[nodiscard]] std::uint64_t first_contradiction() const { return heap_->first_contradiction(); }
  [[nodiscard]] HeapState state(const TraceNames& names) const { return heap_->state(names); }

 private:
  void apply_native(const trace::Record& record);
  void tell(const trace::Record& record) const;

  const trace::Header* header_;
  const trace::Table* table_;
  EarlierKeyframes* keyframes_;
  std::unique_ptr<TraceHeap> heap_;
  std::unique_ptr<NativeRecords> native_;  // null: records say everything
  std::function<void(const trace::Record&)> listener_;
  std::uint64_t settings_ = 0;
  bool is_in_earlier_keyframe_ = false;
};

}  // namespace fragscope::model
