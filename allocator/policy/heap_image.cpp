// SPDX-License-Identifier: Apache-2.0
// Taking over a heap that exists already.
#include "allocator/policy/inspect/heap_image.hpp"

#include "allocator/policy/caching_policy.hpp"
#include "trace/check.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace fragscope::policy {
namespace {

bool is_sound_segment(const ImageSegment& segment) {
  if (segment.size == 0 || segment.size > ~Address{0} - segment.address) return false;
  const Address end = segment.address + segment.size;
  Address covered = segment.address;
  for (const ImageBlock& block : segment.blocks) {
    const bool follows =
        segment.page_size > 0 ? block.address >= covered : block.address == covered;
    if (!follows || block.size == 0 || block.address >= end || block.size > end - block.address) {
      return false;
    }
    covered = block.address + block.size;
  }
  return segment.page_size > 0 || covered == end;
}

}  // namespace

bool is_sound(const HeapImage& image) {
  std::vector<std::pair<Address, std::uint64_t>> blocks;
  std::vector<Address> starts;
  for (const ImageSegment& segment : image.segments) {
    if (!is_sound_segment(segment)) return false;
    starts.push_back(segment.address);
    for (const ImageBlock& block : segment.blocks)
      blocks.emplace_back(block.address, block.size);
  }
  std::ranges::sort(starts);
  std::ranges::sort(blocks);
  return std::ranges::adjacent_find(starts) == starts.end() &&
         std::ranges::adjacent_find(blocks, [](const auto& front, const auto& behind) {
           return behind.first - front.first < front.second;
         }) == blocks.end();
}

void CachingPolicy::adopt(const HeapImage& image) {
  FRAGSCOPE_CHECK(block_count() == 0);
  FRAGSCOPE_DCHECK(is_sound(image));
  for (const ImageSegment& segment : image.segments)
    adopt(segment);
}

void CachingPolicy::adopt(const ImageSegment& segment) {
  BlockPool* pool = segment.size_class == SizeClass::kSmall ? &small_ : &large_;
  if (segment.pool != PoolId{}) {
    if (find_pool(segment.pool) == nullptr) create_pool(segment.pool);
    pool = &find_pool(segment.pool)->of(segment.size_class);
  }
  ExpandableSegment* expandable = nullptr;
  if (segment.page_size > 0) {
    expandable = expandable_.emplace_back(std::make_unique<ExpandableSegment>()).get();
    expandable->base = segment.address;
    expandable->size = segment.size;
    expandable->page_size = segment.page_size;
  }

  Block* last = nullptr;
  const auto append = [&](Address address, std::uint64_t size) -> Block& {
    Block& block = store_.make();
    block.address = address;
    block.size = size;
    block.stream = segment.stream;
    block.pool = pool;
    block.expandable = expandable;
    if (options_.version != TorchVersion::kTorch26) block.segment_number = segment.number;
    if (last != nullptr) insert_after(*last, block);
    last = &block;
    return block;
  };
  const auto append_unmapped = [&](Address begin, Address end) {
    if (begin >= end) return;
    Block& block = append(begin, end - begin);
    block.mapped = false;
    pool->insert_unmapped(block);
  };

  Address covered = segment.address;
  for (const ImageBlock& state : segment.blocks) {
    append_unmapped(covered, state.address);
    adopt(append(state.address, state.size), state);
    covered = state.address + state.size;
  }
  const Address end = segment.address + segment.size;
  append_unmapped(covered, end);
  segments_made_ = std::max(segments_made_, segment.number + 1);
  if (expandable != nullptr) return;
  statistics_.segment.add(segment.size_class, 1);
  if (segment.size >= options_.conf.rules.max_split_size) statistics_.oversize_segments.add(1);
  for (Block* block = last; block != nullptr; block = block->prev) {
    if (block->is_free() && block->is_split()) {
      count_inactive(*block, 1, static_cast<std::int64_t>(block->size));
    }
  }
}

void CachingPolicy::adopt(Block& block, const ImageBlock& state) {
  if (block.expandable != nullptr) block.expandable->mapped_bytes += block.size;
  count_held(block, static_cast<std::int64_t>(block.size));
  if (!state.is_allocated) {
    block.pool->insert_free(block);
    return;
  }
  block.allocated = true;
  block.requested_size = state.requested_size;
  handed_out_.emplace(block.address, &block);
  count_handed_out(block);
}

}  // namespace fragscope::policy
