// SPDX-License-Identifier: Apache-2.0
// Taking down how the blocks of a private pool lie, and making it so again.
#include "allocator/policy/caching_policy.hpp"

#include <algorithm>
#include <unordered_map>

namespace fragscope::policy {

std::uint32_t CachingPolicy::pool_use_count(PoolId id) const {
  const auto pool = private_pools_.find(id);
  return pool == private_pools_.end() ? 0 : pool->second->use_count;
}

// The first blocks of a pool's segments, by address.
std::vector<Block*> CachingPolicy::first_blocks(const PrivatePool& pool) {
  std::vector<Block*> firsts;
  store_.visit_used([&](Block& block) {
    if (block.prev == nullptr && block.pool->owner() == &pool) firsts.push_back(&block);
  });
  std::ranges::sort(firsts, {}, &Block::address);
  return firsts;
}

bool CachingPolicy::has_live_blocks(PoolId id, const std::unordered_set<Address>& expected) {
  const PrivatePool* pool = find_pool(id);
  if (pool == nullptr) return false;
  std::size_t live = 0;
  for (const Block* block : first_blocks(*pool)) {
    for (; block != nullptr; block = block->next) {
      if (!block->allocated) continue;
      if (!expected.contains(block->address)) return false;
      ++live;
    }
  }
  return live == expected.size();
}

std::optional<PoolState> CachingPolicy::pool_state(PoolId id) {
  const PrivatePool* pool = find_pool(id);
  if (pool == nullptr || pool->use_count == 0) return std::nullopt;
  PoolState state{id, {}};
  for (const Block* block : first_blocks(*pool)) {
    auto& segment = state.segments.emplace_back();
    for (; block != nullptr; block = block->next)
      segment.push_back({block->address, block->size, block->allocated, block->mapped});
  }
  return state;
}

RestoredPool CachingPolicy::restore_pool(const PoolState& state) {
  RestoredPool restored;
  PrivatePool* pool = find_pool(state.id);
  if (pool == nullptr || pool->use_count == 0) {
    restored.error = pool == nullptr ? "Could not find private pool id"
                                     : "Not expected to checkpoint freeable graph";
    return restored;
  }
  for (Block* block : first_blocks(*pool)) {
    for (; block != nullptr; block = block->next) {
      if (!block->allocated) continue;
      if (block->open_events > 0) {
        restored.error = "Events should have synchronized when setting checkpointed block";
        return restored;
      }
      restored.freed.push_back(block->address);
    }
  }
  for (const Address address : restored.freed)
    static_cast<void>(free(address));

  std::unordered_map<Address, Block*> firsts;
  for (Block* block : first_blocks(*pool))
    firsts.emplace(block->address, block);
  for (const auto& segment : state.segments) {
    const auto first = segment.empty() ? firsts.end() : firsts.find(segment.front().address);
    if (first == firsts.end()) {
      restored.error = "could not find a segment of the checkpoint";
      return restored;
    }
    restore_segment(*first->second, segment, restored);
    if (!restored.error.empty()) return restored;
  }
  return restored;
}

// Every block is handed out, front to back, and then those are freed that were free: PyTorch goes
// the same way, so that events and statistics come out alike.
void CachingPolicy::restore_segment(Block& first,
                                    const std::vector<BlockState>& segment,
                                    RestoredPool& restored) {
  Block* block = &first;
  for (const BlockState& state : segment) {
    if (!state.is_mapped) continue;  // Only the end of an expandable segment; it stays as it is.
    const bool fits = block != nullptr && block->is_free() && block->mapped &&
                      block->address == state.address && block->size >= state.size;
    if (!fits) {
      restored.error = "a segment changed since the checkpoint";
      return;
    }
    const Request request{.bytes = state.size,
                          .size = state.size,
                          .device_allocation = 0,
                          .stream = block->stream,
                          .pool = block->pool,
                          .expandable = block->expandable != nullptr};
    block = hand_out(*block, request, block->size > state.size).next;
  }
  for (const BlockState& state : segment) {
    if (!state.is_mapped) continue;
    if (state.is_allocated) {
      restored.handed_out.push_back(state.address);
    } else {
      static_cast<void>(free(state.address));
    }
  }
}

}  // namespace fragscope::policy
