// SPDX-License-Identifier: Apache-2.0
// What the policy gives back to the device, and when.
#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/inspect/rules.hpp"

#include <algorithm>
#include <iterator>

namespace fragscope::policy {

bool CachingPolicy::empty_cache(PoolId pool) {
  if (options_.version == TorchVersion::kTorch26 && is_capturing()) {
    ++statistics_.num_sync_all_streams;  // It counts before it checks.
    return false;
  }
  count_rule(Rule::kEmptyCache);
  release_cached(pool);
  return true;
}

// All events, or those of one pool's blocks.
void CachingPolicy::wait_for_events(const PrivatePool* only) {
  ++statistics_.num_sync_all_streams;
  insert_deferred_events();
  for (auto& [stream, events] : pending_) {
    std::erase_if(events, [&](const PendingEvent& pending) {
      if (only != nullptr && pending.block->pool->owner() != only) return false;
      events_.wait(pending.event);
      if (--pending.block->open_events == 0) complete_free(*pending.block);
      return true;
    });
  }
  std::erase_if(pending_, [](const auto& queue) { return queue.second.empty(); });
}

// Everything, or what one private pool has.
void CachingPolicy::release_cached(PoolId only) {
  const std::uint64_t held_before = held_bytes_;
  const std::int64_t count_before = statistics_.num_device_free;
  const bool is_for_all = only == PoolId{};
  if (is_for_all && is_capturing()) {
    count_rule(Rule::kKeepDefaultInCapture);
  } else if (is_for_all) {
    wait_for_events();
    release_blocks(large_);
    release_blocks(small_);
  }
  for (auto pool = private_pools_.begin(); pool != private_pools_.end();) {
    PrivatePool& owner = *pool->second;
    if (owner.use_count > 0 || (!is_for_all && owner.id != only)) {
      count_rule(Rule::kKeepUsedPool);
      ++pool;
      continue;
    }
    if (!is_for_all) wait_for_events(&owner);
    count_rule(Rule::kReleaseFreeablePool);
    release_blocks(owner.small);
    release_blocks(owner.large);
    // Address space may be left where a mapping failed; its block belongs to the pool.
    const bool is_empty = owner.held_bytes == 0 && owner.small.unmapped_blocks().empty() &&
                          owner.large.unmapped_blocks().empty();
    if (is_empty) count_rule(Rule::kForgetPool);
    pool = is_empty ? private_pools_.erase(pool) : std::next(pool);
  }
  if (observer_ == nullptr) return;
  observer_->on_cache_release(
      held_before - held_bytes_,
      static_cast<std::uint64_t>(statistics_.num_device_free - count_before),
      only);
}

void CachingPolicy::release_blocks(BlockPool& pool) {
  std::vector<Block*> expandable;
  for (auto it = pool.free_blocks().begin(); it != pool.free_blocks().end();) {
    Block& block = *it++;
    if (block.expandable != nullptr) {
      expandable.push_back(&block);
    } else if (block.is_split()) {
      count_rule(Rule::kKeepSplit);
    } else {
      count_rule(Rule::kReleaseSegment);
      release_segment(block);
    }
  }
  for (Block* block : expandable)
    unmap_pages(*block);
}

void CachingPolicy::release_segment(Block& block) {
  if (observer_ != nullptr) observer_->on_segment_free(block);
  block.pool->erase_free(block);
  source_of(*block.pool).free(block.address, block.size);
  if (observer_ != nullptr) observer_->on_segment_freed(block);
  count_held(block, -static_cast<std::int64_t>(block.size));
  statistics_.segment.subtract(block.pool->size_class(), 1);
  if (block.size >= options_.conf.rules.max_split_size) statistics_.oversize_segments.subtract(1);
  ++statistics_.num_device_free;
  store_.recycle(block);
}

// With max_split_size: a block that is large enough for the request but was refused to it, or else
// as many oversize blocks as reach it, from the largest down. Only of the request's own home.
bool CachingPolicy::release_oversize(const Request& request) {
  const std::uint64_t threshold = options_.conf.rules.max_split_size;
  if (threshold == kUnlimited) return false;
  BlockPool& pool = *request.pool;
  const std::uint64_t wanted = std::max(request.size, threshold);
  auto candidate = pool.best_fit(request.stream, wanted);
  const auto is_ours = [&](const auto& it) {
    return it != pool.free_blocks().end() && it->stream == request.stream;
  };
  if (is_ours(candidate) && candidate->expandable == nullptr) {
    // PyTorch never looks: it would ask the device to free part of a segment.
    if (candidate->is_split()) return false;
    count_rule(Rule::kReleaseOneOversize);
    release_segment(*candidate);
    return true;
  }
  std::uint64_t released = 0;
  while (released < wanted && candidate != pool.free_blocks().begin()) {
    Block& block = *std::prev(candidate);
    if (block.stream != request.stream || block.size < threshold) break;
    if (block.expandable != nullptr || block.is_split()) {
      --candidate;
      continue;
    }
    count_rule(Rule::kReleaseManyOversize);
    released += block.size;
    release_segment(block);
  }
  if (released < wanted) count_rule(Rule::kReleaseTooFewOversize);
  return released >= wanted;
}

// Blocks that lay idle for longer than the average go back, until what is held is below the
// threshold. Only whole segments of the default pool's large class.
void CachingPolicy::collect_garbage() {
  const auto threshold = static_cast<std::uint64_t>(options_.conf.garbage_collection_threshold *
                                                    static_cast<double>(*limit_));
  if (held_bytes_ <= threshold) {
    count_rule(Rule::kBelowThreshold);
    return;
  }
  const std::uint64_t wanted = held_bytes_ - threshold;
  std::uint64_t released = 0;
  const auto age_of = [this](const Block& block) {
    return large_.lookups() - block.lookups_at_free;
  };
  bool has_released = true;
  while (released < wanted && has_released) {
    std::uint64_t ages = 0;
    std::uint64_t count = 0;
    for (const Block& block : large_.free_blocks()) {
      if (block.is_split()) continue;  // An expandable one counts, though it cannot go.
      ages += age_of(block);
      ++count;
    }
    if (count == 0) return;
    const double average = static_cast<double>(ages) / static_cast<double>(count);
    has_released = false;
    for (auto it = large_.free_blocks().begin(); it != large_.free_blocks().end();) {
      Block& block = *it++;
      if (block.is_split() || block.expandable != nullptr ||
          static_cast<double>(age_of(block)) < average) {
        continue;
      }
      count_rule(Rule::kCollect);
      released += block.size;
      has_released = true;
      release_segment(block);
    }
  }
}

}  // namespace fragscope::policy
