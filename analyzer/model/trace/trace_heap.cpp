// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/trace/trace_heap.hpp"

#include <algorithm>
#include <utility>

namespace fragscope::model {
namespace {

using trace::Record;
using trace::RecordKind;

/// A keyframe lists at most what a ring has room for; a longer one is no keyframe.
constexpr std::uint64_t kMostKeyframeBlocks = std::uint64_t{1} << 26;

constexpr std::uint8_t kHomeFlags = trace::kFlagLarge | trace::kFlagExpandable;

/// Of a block of a keyframe.
BlockState state_of(const Record& record) {
  if ((record.flags & trace::kFlagAllocated) != 0) return BlockState::kLive;
  return (record.flags & trace::kFlagPending) != 0 ? BlockState::kPending : BlockState::kFree;
}

bool is_range(std::uint64_t address, std::uint64_t size) {
  return size > 0 && size <= ~std::uint64_t{0} - address;
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
  if (!is_range(record.address, record.size)) return false;
  Block block = block_of(record);
  block.stack = 0;
  block.is_whole = true;
  if (!blocks_.emplace(record.address, block).second) return false;
  plain_sizes_[record.address] = record.size;
  levels_.reserved += record.size;
  return true;
}

bool TraceHeap::remove_segment(const Record& record) {
  const auto found = blocks_.find(record.address);
  if (found == blocks_.end() || found->second.size != record.size || !found->second.is_whole ||
      found->second.state != BlockState::kFree) {
    return false;
  }
  levels_.reserved -= record.size;
  blocks_.erase(found);
  plain_sizes_.erase(record.address);
  return true;
}

bool TraceHeap::map(const Record& record) {
  if (!is_range(record.address, record.size) || record.other > record.address) return false;
  Block block = block_of(record);
  block.stack = 0;
  block.base = record.other;
  block.flags |= trace::kFlagExpandable;
  if (!blocks_.emplace(record.address, block).second) return false;
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
  if (space == spaces_.end() || space->second.mapped_bytes < record.size) return false;
  space->second.mapped_bytes -= record.size;
  // The allocator gives the addresses back with the last page.
  if (space->second.mapped_bytes == 0) spaces_.erase(space);
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
  if (found == blocks_.end() || found->second.state != BlockState::kLive) return false;
  found->second.state = BlockState::kPending;
  levels_.allocated -= found->second.size;
  return true;
}

bool TraceHeap::complete_free(const Record& record) {
  const auto found = blocks_.find(record.address);
  if (found == blocks_.end() || found->second.state != BlockState::kPending) return false;
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
  if (record.address != keyframe_number_ || keyframe_.size() != keyframe_blocks_) return;
  ++keyframes_;
  if (is_known_ && is_same_as_keyframe()) return;
  // Recording may begin in the middle of a program: then the first record is a keyframe.
  if (is_known_ && !blocks_.empty()) contradict(record);
  take_keyframe();
}

bool TraceHeap::is_same_as_keyframe() const {
  std::size_t mapped = 0;
  for (const Record& record : keyframe_) {
    if ((record.flags & trace::kFlagUnmapped) != 0) continue;
    ++mapped;
    const auto found = blocks_.find(record.address);
    if (found == blocks_.end() || found->second.size != record.size ||
        found->second.state != state_of(record)) {
      return false;
    }
  }
  return mapped == blocks_.size();
}

void TraceHeap::take_keyframe() {
  begin_empty();
  std::uint64_t base = 0;
  for (const Record& record : keyframe_) {
    if ((record.flags & trace::kFlagFirst) != 0) base = record.address;
    if ((record.flags & trace::kFlagUnmapped) != 0) continue;
    Block block = block_of(record);
    block.base = base;
    block.requested = record.other;
    block.state = state_of(record);
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
    blocks_[record.address] = block;
  }
  for (auto& [address, block] : blocks_) {
    const auto whole = plain_sizes_.find(block.base);
    block.is_whole = whole != plain_sizes_.end() && whole->second == block.size;
    if (counts_as_split(block)) levels_.inactive_split += block.size;
  }
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
    if (address < end) {
      ++state.unplaced_count;
      continue;
    }
    if (state.segments.empty() || address != end || block->base != base) {
      HeapSegment& segment = state.segments.emplace_back();
      segment.address = address;
      segment.home = home_of(*block);
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
  return state;
}

}  // namespace fragscope::model
