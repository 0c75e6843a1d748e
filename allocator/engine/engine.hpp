// SPDX-License-Identifier: Apache-2.0
// What the prebuilt library shows to the code that is compiled against an installed PyTorch: the
// allocator of each device, as abstract classes. Both sides may be built by different compilers
// and with either layout of std::string, so nothing that crosses this border holds one; headers
// that this includes need the standard library alone. Thread-safe. No function throws.
#pragma once

#include "allocator/policy/device/device_memory.hpp"
#include "allocator/policy/inspect/pool_state.hpp"
#include "allocator/policy/inspect/snapshot.hpp"
#include "allocator/policy/size_rules.hpp"
#include "allocator/policy/statistics.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace fragscope::engine {

using policy::Address;
using policy::PoolId;
using policy::StreamId;

/// Options of the allocator as PyTorch took them; the defaults are PyTorch's.
struct Settings {
  policy::SizeRules rules;
  double garbage_collection_threshold = 0;
  /// A limit at the start; from then on only throw_on_cudamalloc_oom goes by it.
  double per_process_memory_fraction = 1;
  bool graph_capture_record_stream_reuse = false;
  bool throw_on_cudamalloc_oom = false;
  std::string_view text;  ///< The string that was read last; only for the call.
};

/// Why a request was refused.
struct Refusal {
  enum class Kind : std::uint8_t {
    kOutOfMemory,
    kBeyondAnExbibyte,
    kRejected,  ///< By throw_on_cudamalloc_oom, without asking the device.
    kUnusable,  ///< The device cannot be used at all.
  };
  Kind kind = Kind::kUnusable;
  std::uint64_t device_allocation = 0;  ///< What was asked of the device.
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  policy::Capacity capacity;
  std::optional<std::uint64_t> limit_bytes;
  std::string_view message;  ///< PyTorch's words and ours, until this thread's next refusal.
};

/// A block that somebody has.
struct HandedOut {
  std::uint64_t size = 0;
  std::uint64_t requested_size = 0;
  StreamId stream = 0;
  PoolId pool;
  Address segment = 0;  ///< What it lies in,
  std::uint64_t segment_size = 0;
  bool is_expandable = false;
};

/// One decision, told while the device's lock is held, after it was carried out.
struct Event {
  enum class Kind : std::uint8_t {
    kAlloc,
    kFreeRequested,
    kFreeCompleted,
    kSegmentAlloc,
    kSegmentFree,
    kSegmentMap,
    kSegmentUnmap,
    kSnapshot,     ///< `size`: bytes active.
    kOutOfMemory,  ///< `size`: the rounded request; `address`: bytes that the device has free.
  };
  Kind kind = Kind::kAlloc;
  Address address = 0;
  std::uint64_t size = 0;  ///< Of the block or range.
  std::uint64_t requested_size = 0;
  StreamId stream = 0;
  PoolId pool;
};

class Listener {
 public:
  Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  virtual ~Listener() = default;
  /// May call the device's functions that only ask.
  virtual void on_event(const Event& event) noexcept = 0;
};

/// A call stack of the program; null: none. Stands for itself for ever.
using Stack = const void*;

class Device {
 public:
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// The stack of the calling thread for a request of `bytes`, if stacks are recorded. It may take
  /// Python's lock. Not noexcept, as an interpreter that ends may end the thread here.
  [[nodiscard]] virtual Stack stack_for(std::uint64_t bytes) = 0;
  /// Memory of at least `bytes` (not 0) for work on `stream`. 0: there is none, and `refusal` says
  /// why. `stack` is from `stack_for`.
  [[nodiscard]] virtual Address allocate(std::uint64_t bytes,
                                         StreamId stream,
                                         Stack stack,
                                         Refusal& refusal) noexcept = 0;
  /// The same at this address, a multiple of 512, if it is free there; 0: it is not.
  [[nodiscard]] virtual Address allocate_at(std::uint64_t bytes,
                                            StreamId stream,
                                            Address address,
                                            Stack stack) noexcept = 0;
  // The two below do nothing and give false for what was not handed out here.
  [[nodiscard]] virtual bool give_back(Address address) noexcept = 0;
  [[nodiscard]] virtual bool record_stream(Address address, StreamId stream) noexcept = 0;
  /// None if no block was handed out at this address.
  [[nodiscard]] virtual std::optional<HandedOut> find(Address address) noexcept = 0;

  /// Gives back what nobody uses; of one private pool alone, where one is named. False if PyTorch
  /// refuses that now.
  virtual bool empty_cache(PoolId pool) noexcept = 0;
  virtual void set_settings(const Settings& settings) noexcept = 0;
  virtual void set_memory_fraction(double fraction) noexcept = 0;
  /// 1 if there is no limit.
  [[nodiscard]] virtual double memory_fraction() noexcept = 0;
  /// What is called when no free block serves a request, before the device is asked; true if it
  /// freed something. It may give memory back.
  virtual void set_reclaim(std::function<bool()> reclaim) noexcept = 0;
  /// Whether there ever were expandable segments.
  [[nodiscard]] virtual bool has_expandable_segments() noexcept = 0;
  /// Makes pages of expandable segments, those to come too, readable from another device.
  [[nodiscard]] virtual bool add_peer(int ordinal) noexcept = 0;

  // Private pools. False: not done, since there is no such pool, or it is not open or in use.
  /// See `CachingPolicy::create_pool`.
  virtual void create_pool(PoolId pool, std::shared_ptr<policy::DeviceMemory> source) noexcept = 0;
  [[nodiscard]] virtual bool begin_allocate_to_pool(
      PoolId pool, std::function<bool(StreamId)> filter) noexcept = 0;
  [[nodiscard]] virtual bool end_allocate_to_pool(PoolId pool) noexcept = 0;
  [[nodiscard]] virtual bool release_pool(PoolId pool) noexcept = 0;
  /// 0 for one that is not known.
  [[nodiscard]] virtual std::uint32_t pool_use_count(PoolId pool) noexcept = 0;
  [[nodiscard]] virtual bool set_use_on_oom(PoolId pool, bool use_on_oom) noexcept = 0;
  [[nodiscard]] virtual bool set_no_split(PoolId pool, bool no_split) noexcept = 0;
  virtual void begin_capture() noexcept = 0;
  virtual void end_capture() noexcept = 0;
  /// Whether exactly these blocks of the pool are handed out.
  [[nodiscard]] virtual bool has_live_blocks(
      PoolId pool, const std::unordered_set<void*>& expected) noexcept = 0;
  /// None if there is no such pool with a user.
  [[nodiscard]] virtual std::optional<policy::PoolState> pool_state(PoolId pool) noexcept = 0;
  [[nodiscard]] virtual policy::RestoredPool restore_pool(
      const policy::PoolState& state) noexcept = 0;

  // Statistics.
  [[nodiscard]] virtual policy::Statistics statistics() noexcept = 0;
  virtual void reset_peaks() noexcept = 0;
  virtual void reset_accumulated() noexcept = 0;
  [[nodiscard]] virtual std::vector<policy::SegmentSnapshot> snapshot() noexcept = 0;
  [[nodiscard]] virtual policy::Capacity capacity() noexcept = 0;
  [[nodiscard]] virtual std::uint64_t largest_free_block() noexcept = 0;

  /// Who is told of every decision from now on; null: nobody. Outlives the process's work.
  virtual void listen(Listener* listener) noexcept = 0;
  /// Runs `action` while the device's lock is held.
  virtual void locked(const std::function<void()>& action) noexcept = 0;

 protected:
  Device() = default;
};

class Engine {
 public:
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  /// The device, opened at the first call; null if it cannot be used, see `reason`.
  [[nodiscard]] virtual Device* open(int ordinal) noexcept = 0;
  [[nodiscard]] virtual Device* find_open(int ordinal) const noexcept = 0;
  /// Why this thread's last `open` gave null.
  [[nodiscard]] virtual std::string_view reason() const noexcept = 0;

 protected:
  Engine() = default;
};

}  // namespace fragscope::engine
