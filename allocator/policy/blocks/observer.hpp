// SPDX-License-Identifier: Apache-2.0
// Who wants to know of every decision of the policy: a recorder, a test.
#pragma once

#include "allocator/policy/blocks/block.hpp"
#include "allocator/policy/blocks/block_pool.hpp"

#include <cstdint>
#include <optional>

namespace fragscope::policy {

struct AllocationFailure;

/// Calls come in the order of the decisions, after each has been carried out, but for
/// `on_segment_free`. They must not call the policy and must not throw.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  virtual void on_alloc(const Block& /*block*/) {}
  virtual void on_free_requested(const Block& /*block*/) {}
  /// Before the block is merged with its neighbours.
  virtual void on_free_completed(const Block& /*block*/) {}
  virtual void on_segment_alloc(const Block& /*block*/) {}
  /// It is about to go: whoever registered its memory elsewhere lets go of it now.
  virtual void on_segment_free(const Block& /*block*/) {}
  /// It has gone.
  virtual void on_segment_freed(const Block& /*block*/) {}
  /// The pages are a block of their own still: merging comes afterwards.
  virtual void on_segment_map(const Block& /*block*/, Address /*start*/, std::uint64_t /*size*/) {}
  /// What is left in front and behind was split off before.
  virtual void on_segment_unmap(const Block& /*block*/, Address /*start*/, std::uint64_t /*size*/) {
  }
  /// `front` was cut off `rest`, which keeps its place in the chain behind it.
  virtual void on_split(const Block& /*front*/, const Block& /*rest*/) {}
  /// A neighbour of `size` bytes at `start` became part of `block`.
  virtual void on_merge(const Block& /*block*/, Address /*start*/, std::uint64_t /*size*/) {}
  virtual void on_record_stream(const Block& /*block*/, StreamId /*other*/) {}
  /// A miss gives back what is cached and asks the device once more.
  virtual void on_retry(std::uint64_t /*device_allocation*/, StreamId /*stream*/) {}
  /// Everything was given back that could be, or everything of the private pool `only`: so many
  /// bytes in so many segments or page ranges.
  virtual void on_cache_release(std::uint64_t /*bytes*/, std::uint64_t /*count*/, PoolId /*only*/) {
  }
  /// What may be held from the device from now on.
  virtual void on_limit(std::optional<std::uint64_t> /*bytes*/) {}
  virtual void on_out_of_memory(const AllocationFailure& /*failure*/,
                                StreamId /*stream*/,
                                PoolId /*pool*/) {}
};

}  // namespace fragscope::policy
