// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/trace/heap/trace_heap.hpp"

#include "trace/check.hpp"

#include <algorithm>
#include <utility>

namespace fragscope::model {
namespace {

using trace::Record;
using trace::RecordKind;

/// A keyframe lists at most what a ring has room for; a longer one is no keyframe.
constexpr std::uint64_t kMostKeyframeBlocks = std::uint64_t{1} << 26;

constexpr std::uint8_t kHomeFlags = trace::kFlagLarge | trace::kFlagExpandable;

bool is_range(std::uint64_t address, std::uint64_t size) {
  return size > 0 && size <= ~std::uint64_t{0} - address;
}

bool changes_blocks(RecordKind kind) {
  return kind >= RecordKind::kSegmentAlloc && kind <= RecordKind::kFreeCompleted;
}

}  // namespace

void TraceHeap::begin_empty() {
  forget_blocks();
  is_known_ = true;
}

void TraceHeap::lose() {
  forget_blocks();
  is_known_ = false;
  is_in_keyframe_ = false;
}

void TraceHeap::forget_blocks() {
  blocks_.clear();
  plain_sizes_.clear();
  spaces_.clear();
  reserves_.clear();
  numbers_.clear();
  next_number_ = 1;
  mapped_.clear();
  levels_ = {};
}

void TraceHeap::contradict(const Record& record) {
  ++contradictions_;
  first_contradiction_ = std::min(first_contradiction_, record.commit - 1);
}

void TraceHeap::apply(const Record& record) {
  switch (record.kind) {
    case RecordKind::kKeyframeBegin:
      return begin_keyframe(record);
    case RecordKind::kKeyframeBlock:
      return add_to_keyframe(record);
    case RecordKind::kKeyframeEnd:
      return end_keyframe(record);
    default:
      // A keyframe is one moment: nothing happens inside it.
      if (is_in_keyframe_ && changes_blocks(record.kind)) {
        is_in_keyframe_ = false;
        contradict(record);
      }
      if (is_known_ && !change(record)) contradict(record);
  }
}

bool TraceHeap::change(const Record& record) {
  switch (record.kind) {
    case RecordKind::kSegmentAlloc:
      return add_segment(record);
    case RecordKind::kSegmentFree:
      return remove_segment(record);
    case RecordKind::kSegmentMap:
      return map(record);
    case RecordKind::kSegmentUnmap:
      return unmap(record);
    case RecordKind::kAlloc:
      return hand_out(record);
    case RecordKind::kSplit:
      return split(record);
    case RecordKind::kMerge:
      // Address space without memory is not kept.
      return (record.flags & trace::kFlagUnmapped) != 0 || merge(record);
    case RecordKind::kFreeRequested:
      return request_free(record);
    case RecordKind::kFreeCompleted:
      return complete_free(record);
    default:
      return true;
  }
}

TraceHeap::Block TraceHeap::block_of(const Record& record) {
  Block block;
  block.size = record.size;
  block.base = record.address;
  block.stack = record.stack;
  block.stream = record.stream;
  block.pool = record.pool;
  block.flags = record.flags & kHomeFlags;
  return block;
}

/// Free bytes of a plain segment that is in use.
bool TraceHeap::counts_as_split(const Block& block) {
  return block.state == BlockState::kFree && !block.is_whole &&
         (block.flags & trace::kFlagExpandable) == 0;
}

bool TraceHeap::add_segment(const Record& record) {
  if (!is_range(record.address, record.size) || spaces_.contains(record.address) ||
      !mapped_.add({record.address, record.size}, record.address)) {
    return false;
  }
  Block block = block_of(record);
  block.stack = 0;
  block.flags &= trace::kFlagLarge;
  block.is_whole = true;
  blocks_[record.address] = block;
  plain_sizes_[record.address] = record.size;
  reserves_.erase(record.address);
  number_segment(record.address);
  levels_.reserved += record.size;
  return true;
}

bool TraceHeap::remove_segment(const Record& record) {
  const auto found = blocks_.find(record.address);
  if (found == blocks_.end() || found->second.size != record.size || !found->second.is_whole ||
      found->second.state != BlockState::kFree || !mapped_.remove({record.address, record.size})) {
    return false;
  }
  levels_.reserved -= record.size;
  blocks_.erase(found);
  plain_sizes_.erase(record.address);
  return true;
}

bool TraceHeap::map(const Record& record) {
  if (!is_range(record.address, record.size) || record.other > record.address ||
      plain_sizes_.contains(record.other) ||
      !mapped_.add({record.address, record.size}, record.other)) {
    return false;
  }
  Block block = block_of(record);
  block.stack = 0;
  block.base = record.other;
  block.flags |= trace::kFlagExpandable;
  blocks_[record.address] = block;
  if (!spaces_.contains(block.base) && !reserves_.contains(block.base)) number_segment(block.base);
  AddressSpace& space = spaces_[block.base];
  space.mapped_bytes += record.size;
  space.home = block;
  levels_.reserved += record.size;
  return true;
}

bool TraceHeap::unmap(const Record& record) {
  const auto found = blocks_.find(record.address);
  if (found == blocks_.end() || found->second.size != record.size ||
      found->second.state != BlockState::kFree) {
    return false;
  }
  const auto space = spaces_.find(found->second.base);
  if (space == spaces_.end() || space->second.mapped_bytes < record.size ||
      !mapped_.remove({record.address, record.size})) {
    return false;
  }
  space->second.mapped_bytes -= record.size;
  // The allocator gives the addresses back with the last page.
  if (space->second.mapped_bytes == 0) {
    reserves_.erase(found->second.base);
    spaces_.erase(space);
  }
  levels_.reserved -= record.size;
  blocks_.erase(found);
  return true;
}

bool TraceHeap::hand_out(const Record& record) {
  const auto found = blocks_.find(record.address);
  if (found == blocks_.end()) return false;
  Block& block = found->second;
  if (block.state != BlockState::kFree || block.size != record.size || record.other > record.size) {
    return false;
  }
  if (counts_as_split(block)) levels_.inactive_split -= block.size;
  block.state = BlockState::kLive;
  block.requested = record.other;
  block.stack = record.stack;
  levels_.allocated += block.size;
  levels_.active += block.size;
  levels_.requested += block.requested;
  return true;
}

bool TraceHeap::request_free(const Record& record) {
  const auto found = blocks_.find(record.address);
  if (found == blocks_.end() || found->second.state != BlockState::kLive ||
      found->second.size != record.size) {
    return false;
  }
  found->second.state = BlockState::kPending;
  levels_.allocated -= found->second.size;
  return true;
}

bool TraceHeap::complete_free(const Record& record) {
  const auto found = blocks_.find(record.address);
  if (found == blocks_.end() || found->second.state != BlockState::kPending ||
      found->second.size != record.size) {
    return false;
  }
  Block& block = found->second;
  block.state = BlockState::kFree;
  levels_.active -= block.size;
  levels_.requested -= block.requested;
  if (counts_as_split(block)) levels_.inactive_split += block.size;
  return true;
}

bool TraceHeap::split(const Record& record) {
  const auto found = blocks_.find(record.address);
  if (found == blocks_.end() || record.other == 0 || record.size == 0) return false;
  Block& front = found->second;
  const bool adds_up = front.size > record.size && front.size - record.size == record.other;
  if (!adds_up || front.state != BlockState::kFree) return false;
  if (front.is_whole && (front.flags & trace::kFlagExpandable) == 0) {
    levels_.inactive_split += front.size;
  }
  front.is_whole = false;
  front.size = record.size;
  Block rest = front;
  rest.size = record.other;
  blocks_[record.address + record.size] = rest;
  return true;
}

// What was absorbed lay in front of the other (then it gave the block its address) or behind it.
bool TraceHeap::merge(const Record& record) {
  const auto front = blocks_.find(record.address);
  if (front == blocks_.end() || front->second.state != BlockState::kFree) return false;
  const std::uint64_t second =
      record.other != record.address ? record.other : record.address + front->second.size;
  const auto behind = blocks_.find(second);
  if (behind == blocks_.end() || behind->second.state != BlockState::kFree ||
      second != record.address + front->second.size ||
      front->second.size + behind->second.size != record.size ||
      front->second.base != behind->second.base) {
    return false;
  }
  Block& block = front->second;
  block.size = record.size;
  blocks_.erase(behind);
  if ((block.flags & trace::kFlagExpandable) == 0 && record.address == block.base) {
    const auto whole = plain_sizes_.find(block.base);
    block.is_whole = whole != plain_sizes_.end() && whole->second == block.size;
    if (block.is_whole) levels_.inactive_split -= block.size;
  }
  return true;
}

// --- Keyframes. ----------------------------------------------------------------------------------

void TraceHeap::begin_keyframe(const Record& record) {
  is_in_keyframe_ = record.size <= kMostKeyframeBlocks;
  keyframe_number_ = record.address;
  keyframe_blocks_ = record.size;
  keyframe_.clear();
}

void TraceHeap::add_to_keyframe(const Record& record) {
  if (!is_in_keyframe_) return;
  const bool is_first = !keyframe_.empty() || (record.flags & trace::kFlagFirst) != 0;
  if (!is_range(record.address, record.size) || !is_first || keyframe_.size() >= keyframe_blocks_) {
    is_in_keyframe_ = false;
    contradict(record);
    return;
  }
  keyframe_.push_back(record);
}

void TraceHeap::end_keyframe(const Record& record) {
  if (!std::exchange(is_in_keyframe_, false)) return;
  const bool is_whole = record.address == keyframe_number_ && keyframe_.size() == keyframe_blocks_;
  if (!is_whole || !is_sound_keyframe()) return contradict(record);
  ++keyframes_;
  if (is_known_ && is_same_as_keyframe()) {
    if (!takes_each_) return take_segments();
    keep_stacks();
    return take_keyframe();
  }
  // Recording may begin in the middle of a program: then the first record is a keyframe.
  if (is_known_ && !blocks_.empty()) contradict(record);
  take_keyframe();
}

/// Whether the blocks follow each other within their segments, and no segment lies in another.
bool TraceHeap::is_sound_keyframe() const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> segments;  // start and end
  std::uint8_t kind = 0;
  for (const Record& record : keyframe_) {
    const Block block = block_in_keyframe(record);
    const std::uint8_t is_expandable = record.flags & trace::kFlagExpandable;
    const bool is_unmapped = (record.flags & trace::kFlagUnmapped) != 0;
    const bool is_used = block.state != BlockState::kFree;
    const bool is_two =
        (record.flags & trace::kFlagAllocated) != 0 && (record.flags & trace::kFlagPending) != 0;
    if (is_two || (is_used && block.requested > block.size)) return false;
    if (is_unmapped && (is_used || is_expandable == 0)) return false;
    if ((record.flags & trace::kFlagFirst) != 0) {
      segments.emplace_back(record.address, record.address);
      kind = is_expandable;
    }
    if (record.address != segments.back().second || is_expandable != kind) return false;
    segments.back().second += record.size;
  }
  std::ranges::sort(segments);
  return std::ranges::adjacent_find(segments, [](const auto& front, const auto& behind) {
           return front.second > behind.first;
         }) == segments.end();
}

bool TraceHeap::is_same_as_keyframe() const {
  std::size_t mapped = 0;
  for (const Record& record : keyframe_) {
    if ((record.flags & trace::kFlagUnmapped) != 0) continue;
    ++mapped;
    const auto found = blocks_.find(record.address);
    if (found == blocks_.end()) return false;
    const Block& held = found->second;
    const Block shown = block_in_keyframe(record);
    const bool is_used = held.state != BlockState::kFree;
    if (held.size != shown.size || held.state != shown.state || held.stream != shown.stream ||
        held.pool != shown.pool || held.flags != shown.flags ||
        (is_used && held.requested != shown.requested)) {
      return false;
    }
  }
  return mapped == blocks_.size();
}

TraceHeap::Block TraceHeap::block_in_keyframe(const Record& record) {
  Block block = block_of(record);
  block.requested = record.other;
  if ((record.flags & trace::kFlagAllocated) != 0) block.state = BlockState::kLive;
  if ((record.flags & trace::kFlagPending) != 0) block.state = BlockState::kPending;
  return block;
}

/// A keyframe that was made of a snapshot has none.
void TraceHeap::keep_stacks() {
  for (Record& record : keyframe_) {
    const Block* held = find(record.address);
    if (record.stack == 0 && held != nullptr) record.stack = held->stack;
  }
}

/// The order of segments, and address spaces, which a walk over the records before knows less of.
void TraceHeap::take_segments() {
  const bool has_order =
      std::ranges::any_of(keyframe_, [](const Record& record) { return record.detail > 0; });
  if (has_order) numbers_.clear();
  reserves_.clear();
  std::uint64_t base = 0;
  for (const Record& record : keyframe_) {
    if ((record.flags & trace::kFlagFirst) != 0) {
      base = record.address;
      if (has_order) numbers_[base] = record.detail;
      next_number_ = std::max<std::uint64_t>(next_number_, std::uint64_t{record.detail} + 1);
    }
    if (!trusts_spaces_ || (record.flags & trace::kFlagExpandable) == 0) continue;
    Reserve& reserve = reserves_[base];
    reserve.size += record.size;
    reserve.home = block_of(record);
  }
}

void TraceHeap::take_keyframe() {
  begin_empty();
  take_segments();
  std::uint64_t base = 0;
  for (const Record& record : keyframe_) {
    if ((record.flags & trace::kFlagFirst) != 0) base = record.address;
    if ((record.flags & trace::kFlagUnmapped) != 0) continue;
    Block block = block_in_keyframe(record);
    block.base = base;
    const bool is_used = block.state != BlockState::kFree;
    levels_.reserved += block.size;
    levels_.allocated += block.state == BlockState::kLive ? block.size : 0;
    levels_.active += is_used ? block.size : 0;
    levels_.requested += is_used ? block.requested : 0;
    if ((block.flags & trace::kFlagExpandable) != 0) {
      AddressSpace& space = spaces_[base];
      space.mapped_bytes += block.size;
      space.home = block;
    } else {
      plain_sizes_[base] += block.size;
    }
    FRAGSCOPE_CHECK(mapped_.add({record.address, block.size}, base));
    blocks_[record.address] = block;
  }
  for (auto& [address, block] : blocks_) {
    const auto whole = plain_sizes_.find(block.base);
    block.is_whole = whole != plain_sizes_.end() && whole->second == block.size;
    if (counts_as_split(block)) levels_.inactive_split += block.size;
  }
}

// --- What records can be derived from. -----------------------------------------------------------

const TraceHeap::Block* TraceHeap::find(std::uint64_t address) const {
  const auto found = blocks_.find(address);
  return found == blocks_.end() ? nullptr : &found->second;
}

bool TraceHeap::is_free(std::uint64_t address) const {
  const Block* block = find(address);
  return block != nullptr && block->state == BlockState::kFree;
}

bool TraceHeap::is_live(std::uint64_t address) const {
  const Block* block = find(address);
  return block != nullptr && block->state == BlockState::kLive;
}

bool TraceHeap::is_large(std::uint64_t address) const {
  const Block* block = find(address);
  return block != nullptr && (block->flags & trace::kFlagLarge) != 0;
}

std::uint64_t TraceHeap::size_of(std::uint64_t address) const {
  const Block* block = find(address);
  return block == nullptr ? 0 : block->size;
}

std::uint64_t TraceHeap::base_of(std::uint64_t address) const {
  const Block* block = find(address);
  return block == nullptr ? 0 : block->base;
}

bool TraceHeap::is_home(const Block& home, const Record& record) {
  return home.stream == record.stream && home.pool == record.pool &&
         ((home.flags ^ record.flags) & trace::kFlagLarge) == 0;
}

std::optional<std::uint64_t> TraceHeap::space_below(const Record& record) const {
  std::optional<std::uint64_t> nearest;
  for (const auto& [base, space] : spaces_) {
    if (base <= record.address && is_home(space.home, record) && (!nearest || base > *nearest)) {
      nearest = base;
    }
  }
  return nearest;
}

std::optional<std::uint64_t> TraceHeap::space_above(const Record& record) const {
  std::optional<std::uint64_t> nearest;
  for (const auto& [base, space] : spaces_) {
    if (base > record.address && is_home(space.home, record) && (!nearest || base < *nearest)) {
      nearest = base;
    }
  }
  return nearest;
}

void TraceHeap::move_space(std::uint64_t from, std::uint64_t to) {
  const auto found = spaces_.find(from);
  if (found == spaces_.end() || spaces_.contains(to) || plain_sizes_.contains(to)) return;
  const AddressSpace space = found->second;
  spaces_.erase(found);
  spaces_[to] = space;
  numbers_[to] = numbers_[from];
  for (auto& [address, block] : blocks_) {
    if (block.base == from) block.base = to;
  }
  mapped_.move_base(from, to);
}

// --- The state. ----------------------------------------------------------------------------------

HeapState TraceHeap::state(const TraceNames& names) const {
  HeapState state;
  std::vector<std::pair<std::uint64_t, const Block*>> sorted;
  sorted.reserve(blocks_.size());
  for (const auto& [address, block] : blocks_)
    sorted.emplace_back(address, &block);
  std::ranges::sort(sorted);

  const auto home_of = [&names](const Block& block) {
    const bool is_large = (block.flags & trace::kFlagLarge) != 0;
    return Home{names.pool(block.pool),
                is_large ? SizeClass::kLarge : SizeClass::kSmall,
                (block.flags & trace::kFlagExpandable) != 0,
                names.stream(block.stream)};
  };
  std::uint64_t end = 0;
  std::uint64_t base = 0;
  for (const auto& [address, block] : sorted) {
    if (state.segments.empty() || address != end || block->base != base) {
      HeapSegment& segment = state.segments.emplace_back();
      segment.address = address;
      segment.home = home_of(*block);
      const auto number = numbers_.find(block->base);
      if (number != numbers_.end()) segment.number = number->second;
      segment.first_block = static_cast<std::uint32_t>(state.blocks.size());
      base = block->base;
    }
    HeapSegment& segment = state.segments.back();
    segment.size_bytes += block->size;
    ++segment.block_count;
    end = address + block->size;
    state.blocks.push_back({address,
                            block->size,
                            block->state == BlockState::kFree ? 0 : block->requested,
                            0,
                            names.stack(block->stack),
                            block->state});
  }
  for (const auto& [start, space] : spaces_)
    state.expandable_starts.push_back({start, home_of(space.home)});
  std::ranges::sort(state.expandable_starts, {}, &ExpandableStart::address);
  for (const auto& [start, reserve] : reserves_) {
    const auto number = numbers_.find(start);
    state.reserved_spaces.push_back({start,
                                     reserve.size,
                                     number == numbers_.end() ? 0 : number->second,
                                     home_of(reserve.home)});
  }
  std::ranges::sort(state.reserved_spaces, {}, &ReservedSpace::address);
  return state;
}

}  // namespace fragscope::model
