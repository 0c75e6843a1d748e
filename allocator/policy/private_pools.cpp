// SPDX-License-Identifier: Apache-2.0
// Private pools, and the scopes that send requests to them.
#include "allocator/policy/caching_policy.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace fragscope::policy {

void CachingPolicy::create_pool(PoolId id, std::shared_ptr<DeviceMemory> source) {
  auto& pool = private_pools_[id];
  if (pool == nullptr) {
    pool = std::make_unique<PrivatePool>(id, std::move(source));
    return;
  }
  ++pool->use_count;
  if (source != nullptr && pool->held_bytes == 0) pool->source = std::move(source);
}

bool CachingPolicy::begin_allocate_to_pool(PoolId id, StreamFilter filter) {
  create_pool(id);
  const auto is_same = [id](const Scope& open) { return open.id == id; };
  if (std::ranges::any_of(scopes_, is_same)) return false;
  scopes_.push_back({id, std::move(filter)});
  return true;
}

bool CachingPolicy::end_allocate_to_pool(PoolId id) {
  const auto scope = std::find_if(
      scopes_.rbegin(), scopes_.rend(), [id](const Scope& open) { return open.id == id; });
  if (scope == scopes_.rend()) return false;
  scopes_.erase(std::next(scope).base());
  if (!options_.conf.graph_capture_record_stream_reuse) return true;
  // Frees of the pool's blocks need not wait for the next request.
  std::erase_if(deferred_, [this, id](const DeferredFree& deferred) {
    const PrivatePool* owner = deferred.block->pool->owner();
    if (owner == nullptr || owner->id != id) return false;
    end_deferral(*deferred.block);
    return true;
  });
  return true;
}

PrivatePool* CachingPolicy::find_pool(PoolId id) {
  const auto pool = private_pools_.find(id);
  return pool == private_pools_.end() ? nullptr : pool->second.get();
}

bool CachingPolicy::release_pool(PoolId id) {
  PrivatePool* pool = find_pool(id);
  if (pool == nullptr || pool->use_count == 0) return false;
  --pool->use_count;
  return true;
}

bool CachingPolicy::set_use_on_oom(PoolId id, bool use_on_oom) {
  PrivatePool* pool = find_pool(id);
  if (pool != nullptr) pool->use_on_oom = use_on_oom;
  return pool != nullptr;
}

bool CachingPolicy::set_no_split(PoolId id, bool no_split) {
  PrivatePool* pool = find_pool(id);
  if (pool != nullptr) pool->no_split = no_split;
  return pool != nullptr;
}

}  // namespace fragscope::policy
