// SPDX-License-Identifier: Apache-2.0
// Expandable segments: address space reserved once, pages mapped behind it as requests need them.
#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/inspect/rules.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace fragscope::policy {

Block* CachingPolicy::grow(const Request& request) {
  Block* block = find_address_space(request);
  if (block == nullptr) return nullptr;
  if (!block->mapped) {
    block = map_pages(*block, std::min(block->size, request.size));
    if (block == nullptr) return nullptr;
  }
  // Free, then unmapped, then free again: each step maps what follows and joins it. Pages of
  // earlier steps stay where a later one fails.
  while (block->size < request.size) {
    Block* next = block->next;
    // Only in address space that was too small, see new_address_space, and was mapped all the same.
    if (next == nullptr) return nullptr;
    count_rule(Rule::kMapMore);
    block = map_pages(*next, std::min(next->size, request.size - block->size));
    if (block == nullptr) return nullptr;
  }
  return block;
}

// The lowest run of free and unmapped blocks with enough room, each run starting at an unmapped
// block or the free one in front of it.
Block* CachingPolicy::find_address_space(const Request& request) {
  BlockPool& pool = *request.pool;
  for (auto it = pool.first_unmapped(request.stream);
       it != pool.unmapped_blocks().end() && it->stream == request.stream;
       ++it) {
    Block* first = &*it;
    if (first->prev != nullptr && first->prev->is_free()) first = first->prev;
    std::uint64_t room = 0;
    for (const Block* block = first; block != nullptr && block->is_free() && room < request.size;
         block = block->next) {
      room += block->size;
    }
    if (room >= request.size) return first;
  }
  return new_address_space(request);
}

void CachingPolicy::set_reserve_class(StreamId stream, std::string reserve_class) {
  if (reserve_class.empty()) {
    reserve_classes_.erase(stream);
  } else {
    reserve_classes_[stream] = std::move(reserve_class);
  }
}

const std::string& CachingPolicy::reserve_class_of(StreamId stream) const {
  static const std::string none;
  const auto tag = reserve_classes_.find(stream);
  return tag == reserve_classes_.end() ? none : tag->second;
}

namespace {

/// What a segment reserves without options: an eighth more than the device has.
std::uint64_t full_reserve(std::uint64_t total_bytes) {
  return total_bytes + total_bytes / 8;
}

}  // namespace

// Never more than without options: no request could use it.
std::optional<std::uint64_t> CachingPolicy::configured_reserve(StreamId stream) const {
  const AllocatorConf& conf = options_.conf;
  const auto by_class = conf.expandable_segments_reserve_by_class.find(reserve_class_of(stream));
  const auto spec = by_class != conf.expandable_segments_reserve_by_class.end()
                        ? std::optional(by_class->second)
                        : conf.expandable_segments_reserve;
  if (!spec) return std::nullopt;
  const std::uint64_t total = memory_.capacity().total_bytes;
  const std::uint64_t most = full_reserve(total);
  const double asked = spec->value * static_cast<double>(spec->is_fraction ? total : kGiB);
  // Compared before it is converted: it may be beyond 64 bits.
  return asked < static_cast<double>(most) ? static_cast<std::uint64_t>(asked) : most;
}

Block* CachingPolicy::new_address_space(const Request& request) {
  const std::uint64_t page = page_size(request.pool->size_class(), options_.conf.rules);
  const std::uint64_t size = round_up(
      configured_reserve(request.stream).value_or(full_reserve(memory_.capacity().total_bytes)),
      page);
  // Up to 2.9 it is taken all the same; mapping all of it fails then, and it stays behind.
  if (size < request.size && options_.version != TorchVersion::kTorch26) {
    count_rule(Rule::kReserveTooSmall);
    return nullptr;
  }
  const auto base = memory_.reserve(size);
  if (!base) return nullptr;
  count_rule(Rule::kReserve);
  auto segment = std::make_unique<ExpandableSegment>();
  segment->base = *base;
  segment->size = size;
  segment->page_size = page;
  Block& block = store_.make();
  block.address = *base;
  block.size = size;
  block.stream = request.stream;
  block.pool = request.pool;
  block.expandable = segment.get();
  block.mapped = false;
  if (options_.version != TorchVersion::kTorch26) block.segment_number = segments_made_;
  ++segments_made_;
  request.pool->insert_unmapped(block);
  expandable_.push_back(std::move(segment));
  return &block;
}

/// The unmapped block's first `size` bytes, in whole pages, become a free block and join their free
/// neighbours. Gives that block; null if the device is out of memory.
Block* CachingPolicy::map_pages(Block& block, std::uint64_t size) {
  ExpandableSegment& segment = *block.expandable;
  const std::uint64_t mapped = round_up(size, segment.page_size);
  const Address start = block.address;
  if (!memory_.map(start, mapped, segment.page_size)) {
    count_rule(Rule::kMapFails);
    return nullptr;
  }
  count_rule(Rule::kMap);
  block.pool->erase_unmapped(block);
  if (mapped < block.size) {
    Block& rest = make_like(block, start + mapped, block.size - mapped);
    rest.mapped = false;
    insert_after(block, rest);
    rest.pool->insert_unmapped(rest);
    block.size = mapped;
  }
  block.mapped = true;
  segment.mapped_bytes += mapped;
  count_held(block, static_cast<std::int64_t>(mapped));
  ++statistics_.num_device_alloc;
  if (observer_ != nullptr) observer_->on_segment_map(block, start, mapped);
  merge_neighbours(block);
  block.pool->insert_free(block);
  return &block;
}

// Only pages that lie wholly inside the free block can go; what is left of it at both ends stays.
void CachingPolicy::unmap_pages(Block& block) {
  ExpandableSegment& segment = *block.expandable;
  const Address begin = segment.base + round_up(block.address - segment.base, segment.page_size);
  const std::uint64_t end_offset = block.address + block.size - segment.base;
  const Address end = segment.base + end_offset / segment.page_size * segment.page_size;
  if (begin >= end) {
    count_rule(Rule::kUnmapNothing);
    return;
  }
  count_rule(Rule::kUnmap);
  if (begin > block.address || end < block.address + block.size) count_rule(Rule::kUnmapEnds);
  BlockPool& pool = *block.pool;
  pool.erase_free(block);
  if (const std::uint64_t in_front = begin - block.address; in_front > 0) {
    Block& front = make_like(block, block.address, in_front);
    front.prev = block.prev;
    front.next = &block;
    if (front.prev != nullptr) front.prev->next = &front;
    block.prev = &front;
    block.address = begin;
    block.size -= in_front;
    pool.insert_free(front);
    if (observer_ != nullptr) observer_->on_split(front, block);
  }
  if (const std::uint64_t behind = block.address + block.size - end; behind > 0) {
    Block& back = make_like(block, end, behind);
    insert_after(block, back);
    block.size = end - begin;
    pool.insert_free(back);
    if (observer_ != nullptr) observer_->on_split(block, back);
  }
  memory_.unmap(begin, end - begin);
  block.mapped = false;
  segment.mapped_bytes -= end - begin;
  count_held(block, -static_cast<std::int64_t>(end - begin));
  ++statistics_.num_device_free;
  if (observer_ != nullptr) observer_->on_segment_unmap(block, begin, end - begin);
  merge_neighbours(block);
  if (block.is_split()) {
    pool.insert_unmapped(block);
    return;
  }
  count_rule(Rule::kReleaseAddresses);
  memory_.release(segment.base, segment.size);
  store_.recycle(block);
  std::erase_if(expandable_, [&segment](const auto& owned) { return owned.get() == &segment; });
}

void CachingPolicy::insert_after(Block& block, Block& added) {
  added.prev = &block;
  added.next = block.next;
  if (added.next != nullptr) added.next->prev = &added;
  block.next = &added;
}

}  // namespace fragscope::policy
