// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/trace/heap/native_records.hpp"

#include <iterator>

namespace fragscope::model {
namespace {

using trace::Record;
using trace::RecordKind;

/// Of the device's memory PyTorch reserves that many eighths for an address space.
constexpr std::uint64_t kReserveEighths = 9;

bool is_same_home(const Record& a, const Record& b) {
  constexpr std::uint8_t kHome = trace::kFlagLarge | trace::kFlagExpandable;
  return a.stream == b.stream && a.pool == b.pool && ((a.flags ^ b.flags) & kHome) == 0;
}

}  // namespace

NativeRecords::NativeRecords(TraceHeap& heap, std::uint64_t device_bytes)
    : heap_(heap)
    , reserve_bytes_(
          device_bytes == 0 || device_bytes > policy::kUnlimited / kReserveEighths
              ? policy::kUnlimited
              : policy::round_up(device_bytes / 8 * kReserveEighths, policy::kLargeBuffer)) {}

void NativeRecords::pass_on(const Record& record) {
  heap_.apply(record);
  if (listener_) listener_(record);
}

void NativeRecords::apply(const Record& record) {
  if (!heap_.is_known()) return pass_on(record);
  switch (record.kind) {
    case RecordKind::kSegmentAlloc:
      return segment_comes(record);
    case RecordKind::kSegmentFree:
      return segment_goes(record);
    case RecordKind::kSegmentMap:
      return map(record);
    case RecordKind::kSegmentUnmap:
      return unmap(record);
    case RecordKind::kAlloc:
      return hand_out(record);
    case RecordKind::kFreeRequested:
      return request_free(record);
    case RecordKind::kFreeCompleted:
      return complete_free(record);
    default:
      return pass_on(record);
  }
}

void NativeRecords::segment_comes(const Record& record) {
  pass_on(record);
  note_free(record.address);
}

void NativeRecords::segment_goes(const Record& record) {
  pass_on(record);
  if (!heap_.is_free(record.address)) free_.erase(record.address);
}

void NativeRecords::map(Record record) {
  record.other = base_of_pages(record);
  pass_on(record);
  if (!heap_.is_free(record.address)) return;
  note_free(record.address);
  merge(record.address, record);
}

// What is left of a larger block at both ends stays with the heap.
void NativeRecords::unmap(const Record& record) {
  if (record.size > policy::kUnlimited - record.address) return pass_on(record);
  const std::uint64_t end = record.address + record.size;
  auto found = free_.upper_bound(record.address);
  if (found != free_.begin() && std::prev(found)->second >= end) {
    const auto [start, old_end] = *std::prev(found);
    if (start < record.address) split(start, record.address - start, record);
    if (end < old_end) split(record.address, record.size, record);
  }
  pass_on(record);
  if (!heap_.is_free(record.address)) free_.erase(record.address);
}

void NativeRecords::hand_out(Record record) {
  const auto found = free_.find(record.address);
  if (found != free_.end()) {
    const std::uint64_t available = found->second - found->first;
    const std::uint64_t rounded = policy::round_size(record.other, rules_);
    const bool is_fine = !heap_.is_large(record.address) || rules_.expandable_segments;
    record.size = available;
    if (rounded <= available && policy::should_split(available, rounded, is_fine, rules_)) {
      split(record.address, rounded, record);
      record.size = rounded;
    }
  }
  pass_on(record);
  if (!heap_.is_free(record.address)) free_.erase(record.address);
}

void NativeRecords::request_free(Record record) {
  record.size = heap_.size_of(record.address);
  pass_on(record);
}

void NativeRecords::complete_free(Record record) {
  record.size = heap_.size_of(record.address);
  if (heap_.is_live(record.address)) {
    Record request = record;
    request.kind = RecordKind::kFreeRequested;
    pass_on(request);
  }
  pass_on(record);
  if (!heap_.is_free(record.address)) return;
  note_free(record.address);
  merge(record.address, record);
}

void NativeRecords::note_free(std::uint64_t address) {
  if (heap_.is_free(address)) free_[address] = address + heap_.size_of(address);
}

// --- Blocks. -------------------------------------------------------------------------------------

void NativeRecords::split(std::uint64_t address, std::uint64_t size, const Record& because) {
  const auto found = free_.find(address);
  if (found == free_.end()) return;
  const std::uint64_t end = found->second;
  Record record = because;
  record.kind = RecordKind::kSplit;
  record.address = address;
  record.size = size;
  record.other = end - address - size;
  pass_on(record);
  if (heap_.size_of(address) != size) return;
  found->second = address + size;
  free_[address + size] = end;
}

void NativeRecords::merge(std::uint64_t address, const Record& because) {
  const auto found = free_.find(address);
  if (const auto behind = std::next(found); behind != free_.end()) {
    if (behind->first == found->second) join(address, behind->first, because);
  }
  const auto again = free_.find(address);
  if (again == free_.begin()) return;
  if (const auto front = std::prev(again); front->second == address) {
    join(front->first, address, because);
  }
}

void NativeRecords::join(std::uint64_t front, std::uint64_t rear, const Record& because) {
  if (heap_.base_of(front) != heap_.base_of(rear)) return;
  const std::uint64_t end = free_[rear];
  Record record = because;
  record.kind = RecordKind::kMerge;
  record.address = front;
  record.size = end - front;
  record.other = rear;
  record.flags &= static_cast<std::uint8_t>(~trace::kFlagUnmapped);
  pass_on(record);
  free_.erase(rear);
  free_[front] = end;
}

// --- Address spaces. -----------------------------------------------------------------------------

bool NativeRecords::is_within_reserve(std::uint64_t low, std::uint64_t high) const {
  return high - low < reserve_bytes_;
}

std::uint64_t NativeRecords::base_of_pages(const Record& record) {
  const auto space = heap_.space_below(record);
  if (space && is_within_reserve(*space, record.address)) return *space;
  // Pages in front of the lowest that were seen so far.
  const auto above = heap_.space_above(record);
  if (above && is_within_reserve(record.address, *above)) {
    heap_.move_space(*above, record.address);
  }
  return record.address;
}

std::vector<Record> joined_runs(std::span<const Record> records, std::uint64_t reserve_bytes) {
  std::vector<Record> joined;
  joined.reserve(records.size());
  std::uint64_t base = 0;
  for (const Record& record : records) {
    const bool is_run = (record.flags & trace::kFlagFirst) != 0;
    const bool is_expandable = (record.flags & trace::kFlagExpandable) != 0;
    const bool goes_on = is_run && is_expandable && !joined.empty() &&
                         is_same_home(joined.back(), record) && record.address >= base &&
                         record.address - base < reserve_bytes;
    if (is_run && !goes_on) base = record.address;
    joined.push_back(record);
    if (!goes_on) continue;
    Record& run = joined.back();
    run.flags &= static_cast<std::uint8_t>(~trace::kFlagFirst);
    const Record& before = joined[joined.size() - 2];
    const std::uint64_t end = before.address + before.size;
    if (end >= run.address) continue;
    Record gap = run;
    gap.address = end;
    gap.size = run.address - end;
    gap.other = 0;
    gap.flags = static_cast<std::uint8_t>((run.flags & trace::kFlagLarge) | trace::kFlagExpandable |
                                          trace::kFlagUnmapped);
    joined.insert(std::prev(joined.end()), gap);
  }
  return joined;
}

void NativeRecords::take_keyframe(std::span<const Record> records) {
  if (records.size() < 2) return;
  const std::vector<Record> blocks =
      joined_runs(records.subspan(1, records.size() - 2), reserve_bytes_);
  Record begin = records.front();
  Record end = records.back();
  begin.size = end.size = blocks.size();
  heap_.apply(begin);
  for (const Record& block : blocks)
    heap_.apply(block);
  heap_.apply(end);
  find_free_blocks();
}

void NativeRecords::find_free_blocks() {
  free_.clear();
  heap_.visit_free(
      [this](std::uint64_t address, std::uint64_t size) { free_[address] = address + size; });
}

}  // namespace fragscope::model
