// SPDX-License-Identifier: Apache-2.0
// Stands between the policy and its recorder while somebody else listens too. Not thread-safe;
// called under the device's lock.
#pragma once

#include "allocator/engine/engine.hpp"
#include "allocator/policy/caching_policy.hpp"

#include <cstdint>
#include <optional>

namespace fragscope::live {

class EventTeller final : public policy::Observer {
 public:
  /// `recorder` is told of everything and may be null; both outlive this.
  EventTeller(policy::Observer* recorder, engine::Listener& listener);

  void tell_snapshot(std::uint64_t active_bytes);

  void on_alloc(const policy::Block& block) override;
  void on_free_requested(const policy::Block& block) override;
  void on_free_completed(const policy::Block& block) override;
  void on_segment_alloc(const policy::Block& block) override;
  void on_segment_free(const policy::Block& block) override;
  void on_segment_freed(const policy::Block& block) override;
  void on_segment_map(const policy::Block& block,
                      policy::Address start,
                      std::uint64_t size) override;
  void on_segment_unmap(const policy::Block& block,
                        policy::Address start,
                        std::uint64_t size) override;
  void on_split(const policy::Block& front, const policy::Block& rest) override;
  void on_merge(const policy::Block& block, policy::Address start, std::uint64_t size) override;
  void on_record_stream(const policy::Block& block, policy::StreamId other) override;
  void on_retry(std::uint64_t device_allocation, policy::StreamId stream) override;
  void on_cache_release(std::uint64_t bytes, std::uint64_t count, policy::PoolId only) override;
  void on_limit(std::optional<std::uint64_t> bytes) override;
  void on_out_of_memory(const policy::AllocationFailure& failure,
                        policy::StreamId stream,
                        policy::PoolId pool) override;

 private:
  template <class Tell>
  void record(Tell tell) {
    if (recorder_ != nullptr) tell(*recorder_);
  }
  void tell(engine::Event::Kind kind,
            const policy::Block& block,
            policy::Address start,
            std::uint64_t size);
  void tell(engine::Event::Kind kind, const policy::Block& block) {
    tell(kind, block, block.address, block.size);
  }

  policy::Observer* recorder_;
  engine::Listener& listener_;
};

}  // namespace fragscope::live
