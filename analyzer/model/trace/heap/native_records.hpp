// SPDX-License-Identifier: Apache-2.0
// What a trace of PyTorch's own allocator leaves out. It says which requests were handed out where,
// but not how large the blocks are, nor what was split and merged: that follows from PyTorch's
// rules (allocator/policy/size_rules.hpp) and the heap as it stands. Makes of each record the ones
// that our own allocator would have written. Not thread-safe.
#pragma once

#include "allocator/policy/size_rules.hpp"
#include "analyzer/model/trace/heap/trace_heap.hpp"
#include "trace/format/record.hpp"

#include <absl/container/btree_map.h>

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace fragscope::model {

class NativeRecords {
 public:
  /// `device_bytes`: all of the device's memory; 0: not known.
  NativeRecords(TraceHeap& heap, std::uint64_t device_bytes);

  /// Calls `listener` with each record as it was completed, and with those that were derived, which
  /// are all splits and merges.
  void listen(std::function<void(const trace::Record&)> listener) {
    listener_ = std::move(listener);
  }
  /// The allocator's settings from here on.
  void use(const policy::SizeRules& rules) { rules_ = rules; }
  /// Moves the heap by the record and all that follows from it.
  void apply(const trace::Record& record);
  /// Takes a whole keyframe that states the heap as it is here.
  void take_keyframe(std::span<const trace::Record> records);
  /// The heap was changed by others.
  void find_free_blocks();

 private:
  void pass_on(const trace::Record& record);
  void segment_comes(const trace::Record& record);
  void segment_goes(const trace::Record& record);
  void map(trace::Record record);
  void unmap(const trace::Record& record);
  void hand_out(trace::Record record);
  void request_free(trace::Record record);
  void complete_free(trace::Record record);
  /// Joins the free block with its free neighbours, as far as they are of the same segment.
  void merge(std::uint64_t address, const trace::Record& because);
  void join(std::uint64_t front, std::uint64_t rear, const trace::Record& because);
  void split(std::uint64_t address, std::uint64_t size, const trace::Record& because);
  /// Where the address space begins that these pages are of.
  [[nodiscard]] std::uint64_t base_of_pages(const trace::Record& record);
  [[nodiscard]] bool is_within_reserve(std::uint64_t low, std::uint64_t high) const;
  void note_free(std::uint64_t address);

  TraceHeap& heap_;
  std::uint64_t reserve_bytes_;  // of an address space
  policy::SizeRules rules_;
  std::function<void(const trace::Record&)> listener_;
  absl::btree_map<std::uint64_t, std::uint64_t> free_;  // free blocks: start, end
};

/// The blocks of a keyframe as our own allocator would write them: the runs of mapped pages in an
/// address space belong together, with blocks without memory between them.
[[nodiscard]] std::vector<trace::Record> joined_runs(std::span<const trace::Record> records,
                                                     std::uint64_t reserve_bytes);

}  // namespace fragscope::model
