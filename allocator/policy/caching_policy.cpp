// SPDX-License-Identifier: Apache-2.0
// Handing blocks out and taking them back. In the files beside: what happens on a miss
// (cache_release.cpp, expandable_segments.cpp), frees that have to wait (pending_frees.cpp), and
// private pools (private_pools.cpp).
#include "allocator/policy/caching_policy.hpp"

#include "allocator/policy/inspect/rules.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace fragscope::policy {

CachingPolicy::CachingPolicy(DeviceMemory& memory,
                             StreamEvents& events,
                             PolicyOptions options,
                             Observer* observer)
    : memory_(memory)
    , events_(events)
    , options_(std::move(options))
    , observer_(observer) {
  // The option counts at the start alone; later it is the call of the same name that does.
  const double fraction = options_.conf.per_process_memory_fraction;
  if (fraction < 1) set_memory_fraction(fraction);
}

// --- Handing out. --------------------------------------------------------------------------------

namespace {

void count_sizes(std::uint64_t bytes, std::uint64_t size, const SizeRules& rules) {
  if constexpr (!kCountsRules) return;
  SizeRules plain = rules;
  plain.roundup_divisions.fill(0);
  count_rule(bytes < kMinBlockSize              ? Rule::kRoundMinimum
             : size != round_size(bytes, plain) ? Rule::kRoundDivisions
                                                : Rule::kRoundPlain);
  count_rule(size <= kSmallSize      ? Rule::kSmallSegment
             : size < kMinLargeAlloc ? Rule::kLargeSegment
                                     : Rule::kOwnSegment);
}

}  // namespace

CachingPolicy::Request CachingPolicy::make_request(std::uint64_t bytes, StreamId stream) {
  Request request;
  request.bytes = bytes;
  request.size = round_size(bytes, options_.conf.rules);
  count_sizes(bytes, request.size, options_.conf.rules);
  request.device_allocation = device_allocation(request.size, options_.conf.rules);
  request.stream = stream;
  request.pool = &pool_for(size_class(request.size), stream);
  const PrivatePool* owner = request.pool->owner();
  request.expandable = options_.conf.rules.expandable_segments;
  if (request.expandable && owner != nullptr && owner->source != nullptr) {
    count_rule(Rule::kNotExpandable);
    request.expandable = false;
  }
  return request;
}

bool CachingPolicy::could_serve(std::uint64_t bytes, StreamId stream) {
  if (bytes >= kTooLarge) return false;
  if (!is_capturing()) process_events();
  return find_free(make_request(bytes, stream)) != nullptr;
}

Block* CachingPolicy::allocate(std::uint64_t bytes, StreamId stream) {
  if (bytes >= kTooLarge) {
    count_rule(Rule::kBeyondAnExbibyte);
    failure_ = {};
    failure_.kind = AllocationFailure::Kind::kBeyondAnExbibyte;
    return nullptr;
  }
  complete_frees(stream);
  Request request = make_request(bytes, stream);
  Block* block = find_free(request);
  if (block == nullptr && reclaim_ && reclaim_()) block = find_free(request);
  if (block == nullptr) block = serve_miss(request);
  if (block == nullptr) {
    if (is_rejected_) {
      report_rejection(request);
    } else {
      report_failure(request);
    }
    return nullptr;
  }
  return &hand_out(*block, request, is_to_split(*block, request));
}

// What lies in front of the address in its free block is handed out first and given back behind, so
// that a block can begin there. It is split off whatever the rules say.
Block* CachingPolicy::allocate_at(std::uint64_t bytes, StreamId stream, Address address) {
  if (bytes >= kTooLarge) return nullptr;
  complete_frees(stream);
  const Request request = make_request(bytes, stream);
  Block* rest = free_block_around(request, address);
  if (rest == nullptr) return nullptr;
  count_rule(Rule::kAtAddress);
  Block* front = nullptr;
  if (rest->address != address) {
    count_rule(Rule::kGivesFrontBack);
    Request gap = request;
    gap.bytes = gap.size = address - rest->address;
    front = &hand_out(*rest, gap, true);
  }
  Block& block = hand_out(*rest, request, is_to_split(*rest, request));
  if (front != nullptr) static_cast<void>(free(front->address));
  return &block;
}

Block* CachingPolicy::free_block_around(const Request& request, Address address) {
  BlockPool& pool = *request.pool;
  for (auto it = pool.best_fit(request.stream, request.size);
       it != pool.free_blocks().end() && it->stream == request.stream;
       ++it) {
    const bool begins_before = it->address <= address;
    if (begins_before && it->size - request.size >= address - it->address) return &*it;
  }
  return nullptr;
}

PrivatePool* CachingPolicy::private_pool_for(StreamId stream) {
  const auto accepts = [stream](const Scope& scope) { return scope.filter(stream); };
  const bool first_wins = options_.version == TorchVersion::kTorch26;
  if (first_wins) {
    const auto scope = std::ranges::find_if(scopes_, accepts);
    return scope == scopes_.end() ? nullptr : find_pool(scope->id);
  }
  const auto scope = std::find_if(scopes_.rbegin(), scopes_.rend(), accepts);
  return scope == scopes_.rend() ? nullptr : find_pool(scope->id);
}

BlockPool& CachingPolicy::pool_for(SizeClass size_class, StreamId stream) {
  if (!scopes_.empty()) {
    PrivatePool* owner = private_pool_for(stream);
    if (scopes_.size() > 1) count_rule(Rule::kPoolByOneOfMany);
    count_rule(owner != nullptr ? Rule::kPoolByScope : Rule::kScopeElsewhere);
    if (owner != nullptr) return owner->of(size_class);
  }
  return size_class == SizeClass::kSmall ? small_ : large_;
}

namespace {

/// What a free block could become in place: with the address space that follows it.
std::uint64_t reach_of(const Block& block) {
  const bool can_grow = block.next != nullptr && !block.next->mapped;
  return block.size + (can_grow ? block.next->size : 0);
}

}  // namespace

// Only the first candidate is tried: PyTorch does not search on where the oversize rules refuse it.
Block* CachingPolicy::find_free(const Request& request) {
  BlockPool& pool = *request.pool;
  if (limit_ && options_.conf.garbage_collection_threshold > 0) pool.count_lookup();
  auto candidate = pool.best_fit(request.stream, request.size);
  const auto end = pool.free_blocks().end();
  const auto is_ours = [&](const auto& it) { return it != end && it->stream == request.stream; };
  if (!is_ours(candidate)) {
    count_rule(Rule::kMissOnStream);
    return nullptr;
  }
  if constexpr (kCountsRules) {
    const auto next = std::next(candidate);
    if (is_ours(next) && next->size == candidate->size) count_rule(Rule::kAmongEquals);
  }
  if (candidate->expandable != nullptr) {
    if (request.expandable) {
      // A block at the growing end is the last choice.
      for (auto next = std::next(candidate); candidate->expandable != nullptr && is_ours(next) &&
                                             reach_of(*next) < reach_of(*candidate);
           ++next) {
        candidate = next;
        count_rule(Rule::kGrowingEndLast);
      }
    } else {
      count_rule(Rule::kSkipsExpandable);
      while (is_ours(candidate) && candidate->expandable != nullptr)
        ++candidate;
      if (!is_ours(candidate)) return nullptr;
    }
  }
  if (!oversize_rules_admit(candidate->size, request.size, options_.conf.rules)) {
    const bool is_oversize = request.size >= options_.conf.rules.max_split_size;
    count_rule(is_oversize ? Rule::kOversizeWaste : Rule::kOversizeKept);
    return nullptr;
  }
  count_rule(Rule::kHit);
  return &*candidate;
}

Block& CachingPolicy::split(Block& block, std::uint64_t size) {
  const bool was_split = block.is_split();
  const std::uint64_t whole = block.size;
  Block& front = make_like(block, block.address, size);
  front.prev = block.prev;
  front.next = &block;
  if (front.prev != nullptr) front.prev->next = &front;
  block.prev = &front;
  const auto cut = [size](Block& rest) {
    rest.address += size;
    rest.size -= size;
  };
  if (block.is_linked()) {
    block.pool->change_free(block, cut);
  } else {
    cut(block);
    block.pool->insert_free(block);
  }
  // The free bytes shrink, or a whole segment's rest becomes a free piece of one.
  if (was_split) {
    count_inactive(front, 0, -static_cast<std::int64_t>(size));
  } else {
    count_inactive(front, 1, static_cast<std::int64_t>(whole - size));
  }
  if (observer_ != nullptr) observer_->on_split(front, block);
  return front;
}

bool CachingPolicy::is_to_split(const Block& block, const Request& request) const {
  const BlockPool& pool = *block.pool;
  const SizeRules& rules = options_.conf.rules;
  const bool may_split = pool.owner() == nullptr || !pool.owner()->no_split;
  const bool fine_split = pool.size_class() == SizeClass::kSmall || request.expandable;
  if (may_split && should_split(block.size, request.size, fine_split, rules)) {
    count_rule(fine_split ? Rule::kSplitFine : Rule::kSplitLarge);
    return true;
  }
  count_rule(!may_split                            ? Rule::kNoSplit
             : request.size < rules.max_split_size ? Rule::kKeptWhole
                                                   : Rule::kOversizeUnsplit);
  return false;
}

// `found` is free, in its pool's set, or a new segment, in none.
Block& CachingPolicy::hand_out(Block& found, const Request& request, bool splits) {
  BlockPool& pool = *found.pool;
  Block* block = &found;
  if (splits) {
    block = &split(found, request.size);
  } else {
    if (found.is_linked()) pool.erase_free(found);
    if (found.is_split()) count_inactive(found, -1, -static_cast<std::int64_t>(found.size));
  }
  block->allocated = true;
  block->requested_size = request.bytes;
  handed_out_.emplace(block->address, block);

  count_handed_out(*block);
  if (observer_ != nullptr) observer_->on_alloc(*block);
  return *block;
}

// --- A miss: the attempts, in PyTorch's order. ---------------------------------------------------

// The pool is not searched again after a release: a block that merged from freed neighbours
// meanwhile is not used by this request, which may fail although an identical one right after it
// would not.
Block* CachingPolicy::serve_miss(Request& request) {
  is_rejected_ = false;
  if (limit_ && options_.conf.garbage_collection_threshold > 0) collect_garbage();
  Block* block = from_device(request);
  if (is_rejected_) return nullptr;
  if (block == nullptr && request.pool->owner() == nullptr) block = take_from_lenders(request);
  if (block == nullptr && release_oversize(request)) block = from_device(request);
  if (block == nullptr && is_capturing()) {
    count_rule(Rule::kNoRetryInCapture);
  } else if (block == nullptr) {
    count_rule(Rule::kRetry);
    if (observer_ != nullptr) observer_->on_retry(request.device_allocation, request.stream);
    release_cached();
    ++statistics_.num_alloc_retries;
    block = from_device(request);
  }
  return block;
}

Block* CachingPolicy::take_from_lenders(Request& request) {
  for (const auto& [id, pool] : private_pools_) {
    if (!pool->use_on_oom) continue;
    Request lent = request;
    lent.pool = &pool->of(request.pool->size_class());
    lent.expandable = false;
    if (Block* block = find_free(lent)) {
      count_rule(Rule::kLend);
      request.expandable = false;  // It is split as a plain block is.
      return block;
    }
  }
  return nullptr;
}

bool CachingPolicy::is_over_limit(std::uint64_t more_bytes) const {
  return limit_ && held_bytes_ + more_bytes > *limit_;
}

// throw_on_cudamalloc_oom: what would not fit by the option's own fraction is not even tried.
bool CachingPolicy::is_rejected(const Request& request) const {
  const AllocatorConf& conf = options_.conf;
  if (!conf.throw_on_cudamalloc_oom) return false;
  const double total = static_cast<double>(memory_.capacity().total_bytes);
  const auto allowed = static_cast<std::uint64_t>(conf.per_process_memory_fraction * total);
  return held_bytes_ + request.device_allocation > allowed;
}

Block* CachingPolicy::from_device(const Request& request) {
  if (PrivatePool* owner = request.pool->owner()) owner->is_source_empty = false;
  // By the plain segment's size, also where fewer pages would do.
  if (is_over_limit(request.device_allocation)) {
    count_rule(Rule::kLimit);
    return nullptr;
  }
  if (is_rejected(request)) {
    count_rule(Rule::kRejected);
    ++statistics_.num_oom_rejections;
    is_rejected_ = true;
    return nullptr;
  }
  return request.expandable ? grow(request) : new_segment(request);
}

Block* CachingPolicy::new_segment(const Request& request) {
  const auto address = source_of(*request.pool).allocate(request.device_allocation);
  if (PrivatePool* owner = request.pool->owner()) {
    owner->is_source_empty = owner->source != nullptr && !address;
  }
  count_rule(address ? Rule::kNewSegment : Rule::kDeviceEmpty);
  if (!address) return nullptr;
  if (request.pool->owner() != nullptr && request.pool->owner()->source != nullptr) {
    count_rule(Rule::kOwnSource);
  }
  Block& block = store_.make();
  block.address = *address;
  block.size = request.device_allocation;
  block.stream = request.stream;
  block.pool = request.pool;
  // Before 2.10 blocks of one size were told apart by address alone.
  if (options_.version != TorchVersion::kTorch26) block.segment_number = segments_made_;
  ++segments_made_;
  count_held(block, static_cast<std::int64_t>(block.size));
  statistics_.segment.add(block.pool->size_class(), 1);
  if (block.size >= options_.conf.rules.max_split_size) statistics_.oversize_segments.add(1);
  ++statistics_.num_device_alloc;
  if (observer_ != nullptr) observer_->on_segment_alloc(block);
  return &block;
}

void CachingPolicy::report_rejection(const Request& request) {
  failure_ = {};
  failure_.kind = AllocationFailure::Kind::kRejected;
  failure_.requested_size = request.bytes;
}

void CachingPolicy::report_failure(const Request& request) {
  count_rule(Rule::kOutOfMemory);
  failure_ = {};
  failure_.requested_size = request.bytes;
  failure_.rounded_size = request.size;
  failure_.device_allocation = request.device_allocation;
  failure_.capacity = memory_.capacity();
  failure_.limit_bytes = limit_;
  failure_.allocated_bytes = static_cast<std::uint64_t>(statistics_.allocated_bytes.all.current);
  failure_.reserve_bytes = configured_reserve(request.stream);
  failure_.reserve_class = reserve_class_of(request.stream);
  failure_.is_source_empty =
      request.pool->owner() != nullptr && request.pool->owner()->is_source_empty;
  failure_.reserved_bytes = static_cast<std::uint64_t>(statistics_.reserved_bytes.all.current);
  for (const auto& [id, pool] : private_pools_) {
    for (const BlockPool* part : {&pool->small, &pool->large}) {
      for (const Block& block : part->free_blocks())
        failure_.private_free_bytes += block.size;
    }
  }
  ++statistics_.num_ooms;
  const PrivatePool* owner = request.pool->owner();
  if (owner != nullptr) failure_.pool = owner->id;
  if (observer_ != nullptr) observer_->on_out_of_memory(failure_, request.stream, failure_.pool);
}

// --- Taking back. --------------------------------------------------------------------------------

Block* CachingPolicy::find(Address address) const {
  const auto place = handed_out_.find(address);
  return place == handed_out_.end() ? nullptr : place->second;
}

bool CachingPolicy::free(Address address) {
  const auto place = handed_out_.find(address);
  if (place == handed_out_.end()) return false;
  Block& block = *place->second;
  handed_out_.erase(place);
  block.allocated = false;
  const SizeClass size_class = block.pool->size_class();
  statistics_.allocation.subtract(size_class, 1);
  statistics_.allocated_bytes.subtract(size_class, block.size);
  if (block.size >= options_.conf.rules.max_split_size)
    statistics_.oversize_allocations.subtract(1);
  if (observer_ != nullptr) observer_->on_free_requested(block);
  if (block.used_on.empty()) {
    count_rule(Rule::kFreeAtOnce);
    complete_free(block);
  } else if (is_capturing()) {
    count_rule(Rule::kFreeDeferred);
    defer_free(block);  // No event may be recorded now.
  } else {
    count_rule(Rule::kFreePending);
    insert_events(block);
  }
  return true;
}

// Free neighbours become one block: the one that is in the set already grows, if there is one.
void CachingPolicy::complete_free(Block& block) {
  if (observer_ != nullptr) observer_->on_free_completed(block);
  if (!used_in_capture_.empty()) used_in_capture_.erase(&block);
  const SizeClass size_class = block.pool->size_class();
  statistics_.active.subtract(size_class, 1);
  statistics_.active_bytes.subtract(size_class, block.size);
  statistics_.requested_bytes.subtract(size_class, block.requested_size);

  const std::uint64_t requested_size = block.requested_size;
  std::int64_t split_blocks = 0;
  std::int64_t split_bytes = 0;
  Block* prev = can_merge(block, block.prev) ? block.prev : nullptr;
  Block* next = can_merge(block, block.next) ? block.next : nullptr;
  for (const Block* neighbour : {prev, next}) {
    if (neighbour == nullptr) continue;
    --split_blocks;
    split_bytes -= static_cast<std::int64_t>(neighbour->size);
  }
  if (prev != nullptr) count_rule(Rule::kMergePrev);
  if (next != nullptr) count_rule(Rule::kMergeNext);
  if (prev == nullptr && next == nullptr) count_rule(Rule::kMergeNone);
  Block* whole = &block;
  if (prev != nullptr) {
    if (next != nullptr) block.pool->erase_free(*next);
    whole = prev;
    block.pool->change_free(*prev, [&](Block& grown) {
      absorb(grown, block);
      if (next != nullptr) absorb(grown, *next);
    });
  } else if (next != nullptr) {
    whole = next;
    block.pool->change_free(*next, [&](Block& grown) { absorb(grown, block); });
  } else {
    block.pool->insert_free(block);
  }
  whole->requested_size = requested_size;
  if (whole->is_split()) {
    ++split_blocks;
    split_bytes += static_cast<std::int64_t>(whole->size);
  }
  count_inactive(*whole, split_blocks, split_bytes);
}

// Neighbours of one kind: both mapped, or both address space alone.
bool CachingPolicy::can_merge(const Block& block, const Block* neighbour) {
  return neighbour != nullptr && neighbour->is_free() && neighbour->mapped == block.mapped;
}

/// The neighbour, in no set any more, becomes part of the block.
void CachingPolicy::absorb(Block& block, Block& neighbour) {
  const Address start = neighbour.address;
  const std::uint64_t size = neighbour.size;
  if (&neighbour == block.prev) {
    block.address = start;
    block.prev = neighbour.prev;
    if (block.prev != nullptr) block.prev->next = &block;
  } else {
    block.next = neighbour.next;
    if (block.next != nullptr) block.next->prev = &block;
  }
  block.size += size;
  store_.recycle(neighbour);
  if (observer_ != nullptr) observer_->on_merge(block, start, size);
}

void CachingPolicy::merge_neighbours(Block& block) {
  for (Block* neighbour : {block.prev, block.next}) {
    if (!can_merge(block, neighbour)) continue;
    if (neighbour->mapped) {
      block.pool->erase_free(*neighbour);
    } else {
      block.pool->erase_unmapped(*neighbour);
    }
    absorb(block, *neighbour);
  }
}

// --- Books. --------------------------------------------------------------------------------------

Block& CachingPolicy::make_like(const Block& block, Address address, std::uint64_t size) {
  Block& made = store_.make();
  made.address = address;
  made.size = size;
  made.stream = block.stream;
  made.pool = block.pool;
  made.expandable = block.expandable;
  made.segment_number = block.segment_number;
  return made;
}

DeviceMemory& CachingPolicy::source_of(const BlockPool& pool) {
  const PrivatePool* owner = pool.owner();
  return owner != nullptr && owner->source != nullptr ? *owner->source : memory_;
}

void CachingPolicy::set_memory_fraction(double fraction) {
  const double total = static_cast<double>(memory_.capacity().total_bytes);
  const double allowed = fraction * total;
  if (options_.version == TorchVersion::kTorch26) {
    set_limit(static_cast<std::uint64_t>(allowed));
  } else if (fraction < 1) {
    set_limit(static_cast<std::uint64_t>(std::round(allowed)));
  } else {
    set_limit(std::nullopt);
  }
}

void CachingPolicy::set_limit(std::optional<std::uint64_t> bytes) {
  limit_ = bytes;
  if (observer_ != nullptr) observer_->on_limit(bytes);
}

void CachingPolicy::count_held(const Block& block, std::int64_t bytes) {
  held_bytes_ += static_cast<std::uint64_t>(bytes);
  const SizeClass size_class = block.pool->size_class();
  statistics_.reserved_bytes.change(size_class, bytes);
  if (PrivatePool* owner = block.pool->owner()) {
    owner->held_bytes += static_cast<std::uint64_t>(bytes);
    statistics_.reserved_bytes_by_pool[owner->id].change(size_class, bytes);
  }
}

void CachingPolicy::count_handed_out(const Block& block) {
  const SizeClass size_class = block.pool->size_class();
  statistics_.allocation.add(size_class, 1);
  statistics_.allocated_bytes.add(size_class, block.size);
  statistics_.active.add(size_class, 1);
  statistics_.active_bytes.add(size_class, block.size);
  statistics_.requested_bytes.add(size_class, block.requested_size);
  if (block.size >= options_.conf.rules.max_split_size) statistics_.oversize_allocations.add(1);
}

// Free pieces of expandable segments do not count: their pages can go back.
void CachingPolicy::count_inactive(const Block& block, std::int64_t blocks, std::int64_t bytes) {
  if (block.expandable != nullptr) return;
  statistics_.inactive_split.change(block.pool->size_class(), blocks);
  statistics_.inactive_split_bytes.change(block.pool->size_class(), bytes);
}

std::uint64_t CachingPolicy::largest_free_block() const {
  std::uint64_t largest = 0;
  visit_blocks([&largest](const Block& block) {
    if (block.mapped && block.is_free()) largest = std::max(largest, block.size);
  });
  return largest;
}

std::vector<const Block*> CachingPolicy::blocks() const {
  std::vector<const Block*> all;
  all.reserve(block_count());
  visit_blocks([&all](const Block& block) { all.push_back(&block); });
  std::ranges::sort(all, {}, &Block::address);
  return all;
}

}  // namespace fragscope::policy
