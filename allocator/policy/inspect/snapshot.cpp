// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/inspect/snapshot.hpp"

#include "allocator/policy/caching_policy.hpp"

namespace fragscope::policy {
namespace {

void append(const Block& block, SegmentSnapshot& segment) {
  BlockSnapshot& added = segment.blocks.emplace_back();
  added.size = block.size;
  added.requested_size = block.requested_size;
  added.is_allocated = block.allocated;
  added.is_active = !block.is_free();
  if (block.is_free()) added.lookups = block.pool->lookups() - block.lookups_at_free;
  segment.total_size += block.size;
  if (added.is_allocated) segment.allocated_size += block.size;
  if (!added.is_active) return;
  segment.active_size += block.size;
  segment.requested_size += block.requested_size;
}

}  // namespace

std::vector<SegmentSnapshot> snapshot(const CachingPolicy& policy) {
  std::vector<SegmentSnapshot> segments;
  for (const Block* block : policy.blocks()) {
    if (!block->mapped) continue;
    if (block->prev == nullptr || !block->prev->mapped) {
      SegmentSnapshot& segment = segments.emplace_back();
      segment.address = block->address;
      segment.stream = block->stream;
      segment.number = block->segment_number;
      segment.size_class = block->pool->size_class();
      if (block->pool->owner() != nullptr) segment.pool = block->pool->owner()->id;
      segment.is_expandable = block->expandable != nullptr;
    }
    append(*block, segments.back());
  }
  return segments;
}

}  // namespace fragscope::policy
