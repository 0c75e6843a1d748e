// SPDX-License-Identifier: Apache-2.0
#include "analyzer/verdict/running/policy_heap.hpp"

#include <algorithm>
#include <cstdint>

namespace fragscope::verdict {
namespace {

model::Home home_of(const policy::Block& block, PolicyHeap& made) {
  const policy::PrivatePool* owner = block.pool->owner();
  return {owner == nullptr ? model::kDefaultPool : made.number_of(owner->id),
          block.pool->size_class(),
          block.expandable != nullptr,
          static_cast<std::int64_t>(block.stream)};
}

model::BlockState state_of(const policy::Block& block) {
  if (block.is_free()) return model::BlockState::kFree;
  return block.allocated ? model::BlockState::kLive : model::BlockState::kPending;
}

/// Blocks come in the order of addresses.
void add(const policy::Block& block, PolicyHeap& made) {
  model::HeapState& heap = made.heap;
  if (block.prev == nullptr && block.expandable != nullptr) {
    heap.expandable_starts.push_back({block.address, home_of(block, made)});
  }
  if (!block.mapped) return;
  const bool continues = block.prev != nullptr && block.prev->mapped;
  if (!continues) {
    model::HeapSegment& segment = heap.segments.emplace_back();
    segment.address = block.address;
    segment.home = home_of(block, made);
    segment.first_block = static_cast<std::uint32_t>(heap.blocks.size());
  }
  model::HeapSegment& segment = heap.segments.back();
  segment.size_bytes += block.size;
  ++segment.block_count;
  const std::uint64_t requested = block.is_free() ? 0 : block.requested_size;
  heap.blocks.push_back(
      {block.address, block.size, requested, 0, model::kNoStack, state_of(block)});
}

}  // namespace

model::PoolIndex PolicyHeap::number_of(policy::PoolId pool) {
  const auto found = std::ranges::find(pools, pool);
  const auto number = static_cast<std::uint16_t>(found - pools.begin());
  if (found == pools.end()) pools.push_back(pool);
  return model::PoolIndex{number};
}

PolicyHeap heap_of(const policy::CachingPolicy& policy) {
  PolicyHeap made;
  for (const policy::Block* block : policy.blocks())
    add(*block, made);
  return made;
}

}  // namespace fragscope::verdict
