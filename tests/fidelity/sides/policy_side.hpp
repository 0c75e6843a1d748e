// SPDX-License-Identifier: Apache-2.0
// The side that is ours.
#pragma once

#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/device/simulated_device.hpp"
#include "allocator/policy/inspect/out_of_memory_message.hpp"
#include "tests/fidelity/sides/side.hpp"

#include <optional>

namespace fragscope::fidelity {

/// What the policy's device has to agree on with the one that PyTorch sees.
struct DeviceFacts {
  std::uint64_t total_bytes = 0;
  std::uint64_t context_bytes = 0;     ///< What the process's context takes.
  std::vector<std::uint64_t> streams;  ///< Handles by number.
  policy::TorchVersion version = policy::TorchVersion::kTorch215;
};

/// Our policy on a simulated device, new for every program.
class PolicySide final : public Side {
 public:
  explicit PolicySide(const DeviceFacts& facts);

  Outcome run(const Step& step) override;
  void observe(Observation& observation) override;

 private:
  /// Writes the policy's decisions down as PyTorch's trace shows them.
  class Tracer final : public policy::Observer {
   public:
    explicit Tracer(bool has_pools)
        : has_pools_(has_pools) {}
    void on_alloc(const policy::Block& block) override;
    void on_free_requested(const policy::Block& block) override;
    void on_free_completed(const policy::Block& block) override;
    void on_segment_alloc(const policy::Block& block) override;
    void on_segment_free(const policy::Block& block) override;
    void on_segment_map(const policy::Block& block,
                        policy::Address start,
                        std::uint64_t size) override;
    void on_segment_unmap(const policy::Block& block,
                          policy::Address start,
                          std::uint64_t size) override;
    void on_out_of_memory(const policy::AllocationFailure& failure,
                          policy::StreamId stream,
                          policy::PoolId pool) override;
    std::vector<TraceEvent> events;

   private:
    void add(Action action, const policy::Block& block, std::uint64_t start, std::uint64_t size);
    bool has_pools_;  // PyTorch 2.6 does not say which pool an event is of.
  };

  [[nodiscard]] Outcome run_on_allocator(const Step& step);
  void run_on_pool(const Step& step);
  void run_on_device(const Step& step, Outcome& outcome);
  [[nodiscard]] std::vector<policy::ProcessMemory> processes() const;
  [[nodiscard]] Outcome apply_conf(const std::string& text);
  Outcome allocate(const Step& step);
  Outcome allocate_at(const Step& step);
  [[nodiscard]] std::uint64_t handle(unsigned stream) const { return facts_.streams.at(stream); }

  DeviceFacts facts_;
  policy::SimulatedStreams streams_;
  policy::SimulatedDevice device_;
  Tracer tracer_;
  policy::CachingPolicy policy_;
  PoolKey capture_pool_;
  std::uint64_t neighbour_bytes_ = 0;
};

}  // namespace fragscope::fidelity
