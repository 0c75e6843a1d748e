// SPDX-License-Identifier: Apache-2.0
// One device's allocator at work: the policy over the driver's memory, recorded, behind one lock.
// What every way into PyTorch shares.
#pragma once

#include "allocator/driver/driver_api.hpp"
#include "allocator/driver/driver_events.hpp"
#include "allocator/driver/driver_memory.hpp"
#include "allocator/engine/engine.hpp"
#include "allocator/live/event_teller.hpp"
#include "allocator/live/evidence/device_witness.hpp"
#include "allocator/live/live_options.hpp"
#include "allocator/policy/caching_policy.hpp"
#include "allocator/recorder/process_recorder.hpp"
#include "allocator/recorder/timed_memory.hpp"
#include "allocator/stacks/call_stacks.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace fragscope::live {

class LiveDevice final : public engine::Device {
 public:
  /// `api` and `recorders` outlive this. Unrecorded if there is no ring to be had.
  LiveDevice(const driver::Api& api,
             driver::Device device,
             const LiveOptions& options,
             recorder::ProcessRecorder& recorders);

  [[nodiscard]] engine::Stack stack_for(std::uint64_t bytes) override;
  [[nodiscard]] policy::Address allocate(std::uint64_t bytes,
                                         policy::StreamId stream,
                                         engine::Stack stack,
                                         engine::Refusal& refusal) noexcept override;
  [[nodiscard]] policy::Address allocate_at(std::uint64_t bytes,
                                            policy::StreamId stream,
                                            policy::Address address,
                                            engine::Stack stack) noexcept override;
  [[nodiscard]] bool give_back(policy::Address address) noexcept override;
  [[nodiscard]] bool record_stream(policy::Address address,
                                   policy::StreamId stream) noexcept override;
  [[nodiscard]] std::optional<engine::HandedOut> find(policy::Address address) noexcept override;

  bool empty_cache(policy::PoolId pool) noexcept override;
  void set_settings(const engine::Settings& settings) noexcept override;
  void set_memory_fraction(double fraction) noexcept override;
  [[nodiscard]] double memory_fraction() noexcept override;
  void set_reclaim(std::function<bool()> reclaim) noexcept override;
  [[nodiscard]] bool has_expandable_segments() noexcept override;
  [[nodiscard]] bool add_peer(int ordinal) noexcept override;

  void create_pool(policy::PoolId pool,
                   std::shared_ptr<policy::DeviceMemory> source) noexcept override;
  [[nodiscard]] bool begin_allocate_to_pool(
      policy::PoolId pool, std::function<bool(policy::StreamId)> filter) noexcept override;
  [[nodiscard]] bool end_allocate_to_pool(policy::PoolId pool) noexcept override;
  [[nodiscard]] bool release_pool(policy::PoolId pool) noexcept override;
  [[nodiscard]] std::uint32_t pool_use_count(policy::PoolId pool) noexcept override;
  [[nodiscard]] bool set_use_on_oom(policy::PoolId pool, bool use_on_oom) noexcept override;
  [[nodiscard]] bool set_no_split(policy::PoolId pool, bool no_split) noexcept override;
  void begin_capture() noexcept override;
  void end_capture() noexcept override;
  [[nodiscard]] bool has_live_blocks(policy::PoolId pool,
                                     const std::unordered_set<void*>& expected) noexcept override;
  [[nodiscard]] std::optional<policy::PoolState> pool_state(policy::PoolId pool) noexcept override;
  [[nodiscard]] policy::RestoredPool restore_pool(const policy::PoolState& state) noexcept override;

  [[nodiscard]] policy::Statistics statistics() noexcept override;
  void reset_peaks() noexcept override;
  void reset_accumulated() noexcept override;
  [[nodiscard]] std::vector<policy::SegmentSnapshot> snapshot() noexcept override;
  [[nodiscard]] policy::Capacity capacity() noexcept override;
  [[nodiscard]] std::uint64_t largest_free_block() noexcept override;

  void listen(engine::Listener* listener) noexcept override;
  void locked(const std::function<void()>& action) noexcept override;

  /// Writes what the program said in marks of its own, and with it who uses the device.
  void write_marks();
  /// The same of annotations, which may come in any number.
  void write_annotations();
  /// The process ends; what comes now is not recorded any more.
  void end_recording();
  /// Empty if the device is not recorded.
  [[nodiscard]] const std::string& ring_path() const { return ring_path_; }

  // Held while a process forks, so that a child finds the books whole.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  /// In the child: a lock that knows its owner is not the child's to open.
  void renew_lock() { std::construct_at(&mutex_); }

 private:
  [[nodiscard]] engine::Refusal refusal(policy::StreamId stream) const;
  void catch_up();
  /// The stack's id in the ring.
  [[nodiscard]] std::uint32_t stack_id(engine::Stack stack);
  template <class Body, class Value>
  Value guarded(Value otherwise, Body body) noexcept;
  template <class Body>
  void guarded(Body body) noexcept;

  driver::Device device_;
  DeviceWitness witness_;
  driver::DriverMemory memory_;
  driver::DriverEvents events_;
  recorder::DeviceRecorder* recorder_;
  recorder::TimedMemory timed_memory_;  // what the policy sees of memory_
  std::string ring_path_;
  stacks::StackKind stack_kind_;
  std::uint64_t min_stack_size_;
  absl::flat_hash_map<engine::Stack, std::uint32_t> stack_ids_;
  policy::CachingPolicy policy_;
  std::optional<EventTeller> teller_;
  // A listener asks while it is told, and memory may be given back while a request is served.
  std::recursive_mutex mutex_;
};

}  // namespace fragscope::live
