// SPDX-License-Identifier: Apache-2.0
// The lists and tuples of a snapshot while it is read. What a list holds decides what becomes of
// it: records of one kind are a range of their numbers, frames are an interned call stack, lists of
// trace entries are the traces of the devices, two numbers are a pool. Anything else is nothing
// that a reader needs. Used by `SnapshotBuilder`, which reads the dicts.
#pragma once

#include "analyzer/ingest/pickle/value.hpp"
#include "analyzer/recording/recording.hpp"
#include "trace/result.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fragscope::ingest {

/// A run of records of one kind.
struct RecordRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// What a dict has turned out to be.
enum class DictKind : std::uint8_t {
  kUnset,
  kEvent,
  kFrame,
  kBlock,
  kSegment,
  kHistory,
  kSettings,
  kDivisions,
  kRoot,
  kOpaque,
  kBroken,  ///< Looks like a record but is none; an error only where one is needed.
};

/// A dict; `record` is its number among those of its kind.
struct DictSlot {
  DictKind kind = DictKind::kUnset;
  std::uint32_t record = 0;
};

enum class ListKind : std::uint8_t {
  kEmpty,
  kEvents,
  kSegments,
  kBlocks,
  kStack,  ///< `range.first` is the stack's id.
  kHistory,
  kTraces,  ///< A range of `RecordLists::traces`.
  kPair,    ///< Two numbers: a pool id; `range.first` is its index.
  kOpaque,
  kBroken,
};

struct ListSlot {
  ListKind kind = ListKind::kEmpty;
  bool used = false;  ///< Its items were copied into a record; changing it now would be a lie.
  RecordRange range;
};

class RecordLists {
 public:
  /// Stacks and pools go into `recording`; `dicts` are those that the items refer to.
  RecordLists(model::Recording& recording, const model::LargeVector<DictSlot>& dicts)
      : recording_(recording)
      , dicts_(dicts) {}

  void reserve(std::size_t count) { lists_.reserve(count); }
  /// Some dict is broken: from now on items are looked through for it.
  void note_broken() { has_broken_ = true; }

  /// A new, empty list.
  [[nodiscard]] Value add();
  /// A new list with the items of a stack.
  [[nodiscard]] Value repeat(std::uint64_t stack);
  /// A pool, if it is a pair of numbers.
  [[nodiscard]] Value tuple(std::span<const Value> items);
  /// Fails: the list was used already, or is a call stack beyond all measure.
  [[nodiscard]] Result<void> append(std::uint64_t list, std::span<const Value> items);

  [[nodiscard]] const ListSlot& operator[](std::uint64_t list) const { return lists_[list]; }
  /// The list whose items are now copied into a record; null if the value is none.
  [[nodiscard]] const ListSlot* use(const Value& value) {
    if (value.kind != ValueKind::kList) return nullptr;
    ListSlot& list = lists_[value.payload];
    list.used = true;
    return &list;
  }
  /// The events of each device, for all lists of traces.
  [[nodiscard]] std::span<const RecordRange> traces() const { return traces_; }
  [[nodiscard]] std::size_t held_bytes() const {
    return lists_.size() * sizeof(ListSlot) + traces_.capacity() * sizeof(RecordRange);
  }

 private:
  [[nodiscard]] bool is(const Value& item, DictKind kind) const {
    return item.kind == ValueKind::kDict && dicts_[item.payload].kind == kind;
  }
  void append_records(ListSlot& list, std::span<const Value> items);
  [[nodiscard]] Result<void> append_frames(ListSlot& list, std::span<const Value> items);
  void append_traces(ListSlot& list, std::span<const Value> items);
  void append_numbers(ListSlot& list, std::span<const Value> items);

  model::Recording& recording_;
  const model::LargeVector<DictSlot>& dicts_;
  model::LargeVector<ListSlot> lists_;
  std::vector<RecordRange> traces_;
  bool has_broken_ = false;
  std::vector<model::FrameId> frame_scratch_;
  std::size_t copied_frames_ = 0;
  absl::flat_hash_map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> pool_indices_;
};

}  // namespace fragscope::ingest
