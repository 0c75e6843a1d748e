// SPDX-License-Identifier: Apache-2.0
#include "analyzer/ingest/record_lists.hpp"

#include <algorithm>

namespace fragscope::ingest {
namespace {

using model::FrameId;
using model::StackId;

ListKind list_kind_for(DictKind kind) {
  switch (kind) {
    case DictKind::kEvent:
      return ListKind::kEvents;
    case DictKind::kSegment:
      return ListKind::kSegments;
    case DictKind::kBlock:
      return ListKind::kBlocks;
    case DictKind::kHistory:
      return ListKind::kHistory;
    case DictKind::kBroken:
      return ListKind::kBroken;
    default:
      return ListKind::kOpaque;
  }
}

}  // namespace

Value RecordLists::add() {
  lists_.emplace_back();
  return {ValueKind::kList, lists_.size() - 1};
}

Value RecordLists::repeat(std::uint64_t stack) {
  lists_.push_back({ListKind::kStack, false, lists_[stack].range});
  return {ValueKind::kList, lists_.size() - 1};
}

Value RecordLists::tuple(std::span<const Value> items) {
  const auto is_count = [](const Value& value) {
    return value.kind == ValueKind::kUint ||
           (value.kind == ValueKind::kInt && static_cast<std::int64_t>(value.payload) >= 0);
  };
  if (items.size() != 2 || !is_count(items[0]) || !is_count(items[1])) {
    return {ValueKind::kOpaque, 0};
  }
  if (items[0].payload == 0 && items[1].payload == 0) return {ValueKind::kPair, 0};
  const auto [place, added] = pool_indices_.try_emplace(
      std::pair{items[0].payload, items[1].payload}, recording_.pools.size());
  if (added) {
    // A process has a handful of pools; past what an index can name, a pair is no pool.
    constexpr std::size_t kMaxPools = 4096;
    if (recording_.pools.size() >= kMaxPools) {
      pool_indices_.erase(place);
      return {ValueKind::kOpaque, 0};
    }
    recording_.pools.push_back({items[0].payload, items[1].payload});
  }
  return {ValueKind::kPair, place->second};
}

Result<void> RecordLists::append(std::uint64_t list_handle, std::span<const Value> items) {
  ListSlot& list = lists_[list_handle];
  if (items.empty()) return {};
  if (list.used) {
    return failure(ErrorCode::kDamaged,
                   "a list grows after it was used; snapshots fill each one once");
  }
  if (list.kind == ListKind::kOpaque || list.kind == ListKind::kBroken) return {};
  // A list with a broken record in it is broken, whatever else it holds.
  const auto is_broken = [this](const Value& item) { return is(item, DictKind::kBroken); };
  const Value& first = items.front();
  if (has_broken_ && std::ranges::any_of(items, is_broken)) {
    list.kind = ListKind::kBroken;
  } else if (first.kind == ValueKind::kList) {
    append_traces(list, items);
  } else if (first.kind != ValueKind::kDict) {
    append_numbers(list, items);
  } else if (is(first, DictKind::kFrame)) {
    return append_frames(list, items);
  } else {
    append_records(list, items);
  }
  return {};
}

void RecordLists::append_numbers(ListSlot& list, std::span<const Value> items) {
  const Value pair = list.kind == ListKind::kEmpty ? tuple(items) : Value{ValueKind::kOpaque, 0};
  list.kind = pair.kind == ValueKind::kPair ? ListKind::kPair : ListKind::kOpaque;
  list.range.first = static_cast<std::uint32_t>(pair.payload);
}

// Records are numbered in the order they are read, so a list of them is a range. A list for which
// that does not hold (a record in two lists) is none that PyTorch writes.
void RecordLists::append_records(ListSlot& list, std::span<const Value> items) {
  const DictSlot& first = dicts_[items.front().payload];
  const ListKind kind = list_kind_for(first.kind);
  if (list.kind == ListKind::kEmpty) list = {kind, false, {first.record, 0}};
  std::uint32_t next = list.range.first + list.range.count;
  bool is_range = list.kind == kind && kind != ListKind::kOpaque;
  for (const Value& item : items) {
    is_range = is_range && item.kind == ValueKind::kDict &&
               list_kind_for(dicts_[item.payload].kind) == kind &&
               dicts_[item.payload].record == next;
    ++next;
  }
  if (is_range) {
    list.range.count = next - list.range.first;
  } else {
    list.kind = ListKind::kOpaque;
  }
}

Result<void> RecordLists::append_frames(ListSlot& list, std::span<const Value> items) {
  frame_scratch_.clear();
  if (list.kind == ListKind::kStack) {
    const auto so_far = recording_.stacks.stack(StackId{list.range.first});
    frame_scratch_.assign(so_far.begin(), so_far.end());
    copied_frames_ += so_far.size();
  } else if (list.kind != ListKind::kEmpty) {
    list.kind = ListKind::kOpaque;
    return {};
  }
  for (const Value& item : items) {
    if (!is(item, DictKind::kFrame)) {
      list.kind = ListKind::kOpaque;
      return {};
    }
    frame_scratch_.push_back(FrameId{dicts_[item.payload].record});
  }
  // Python's recursion limit is a thousand and its pickler appends a thousand items at a time; past
  // these bounds a stack is made to hurt.
  constexpr std::size_t kMaxFrames = 1U << 16;
  constexpr std::size_t kMaxCopiedFrames = 1U << 24;
  if (frame_scratch_.size() > kMaxFrames || copied_frames_ > kMaxCopiedFrames) {
    return failure(ErrorCode::kTooLarge,
                   "a call stack of over 65536 frames, or built in too many parts");
  }
  const StackId stack = recording_.stacks.intern_stack(frame_scratch_);
  list = {ListKind::kStack, false, {static_cast<std::uint32_t>(stack), 1}};
  return {};
}

void RecordLists::append_traces(ListSlot& list, std::span<const Value> items) {
  if (list.kind == ListKind::kEmpty) {
    list = {ListKind::kTraces, false, {static_cast<std::uint32_t>(traces_.size()), 0}};
  }
  if (list.kind != ListKind::kTraces || list.range.first + list.range.count != traces_.size()) {
    list.kind = ListKind::kOpaque;
    return;
  }
  for (const Value& item : items) {
    const ListSlot* inner = use(item);
    if (inner == nullptr || (inner->kind != ListKind::kEmpty && inner->kind != ListKind::kEvents)) {
      const bool is_broken = inner != nullptr && inner->kind == ListKind::kBroken;
      list.kind = is_broken ? ListKind::kBroken : ListKind::kOpaque;
      return;
    }
    traces_.push_back(inner->range);
    ++list.range.count;
  }
}

}  // namespace fragscope::ingest
