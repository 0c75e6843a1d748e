// SPDX-License-Identifier: Apache-2.0
// PyTorch's own CUDA caching allocator, of one device, behind an interface without PyTorch's or
// the standard library's types: PyTorch 2.6 is built for another ABI of std::string than ours, so
// what implements this is a library of its own, built against the PyTorch it is loaded with.
// All sizes are bytes. One thread.
#pragma once

#include <cstdint>
#include <span>

namespace fragscope::fidelity {

/// An action of PyTorch's memory trace, numbered as there.
enum class Action : std::uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kSnapshot,
  kOutOfMemory,
};

/// Two ids as PyTorch prints them; (0,0) is the default pool.
struct PoolKey {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend auto operator<=>(const PoolKey&, const PoolKey&) = default;
};

/// One entry of the memory trace.
struct TraceEvent {
  Action action = Action::kAlloc;
  std::uint64_t address = 0;  ///< Of an out-of-memory: what the device has free.
  std::uint64_t size = 0;
  std::uint64_t stream = 0;
  PoolKey pool;  ///< PyTorch 2.6 does not say: (0,0).
  friend auto operator<=>(const TraceEvent&, const TraceEvent&) = default;
};

struct BlockState {
  std::uint64_t size = 0;
  std::uint64_t requested_size = 0;  ///< Of an inactive block: of its last holder.
  bool is_allocated = false;
  bool is_active = false;
  friend bool operator==(const BlockState&, const BlockState&) = default;
};

/// A segment of the snapshot. Its blocks tile it, in the order of addresses.
struct SegmentState {
  std::uint64_t address = 0;
  std::uint64_t total_size = 0;
  std::uint64_t requested_size = 0;
  std::uint64_t allocated_size = 0;
  std::uint64_t active_size = 0;
  std::uint64_t stream = 0;
  PoolKey pool;
  bool is_large = false;
  bool is_expandable = false;
  std::uint32_t first_block = 0;  ///< Index into the snapshot's blocks,
  std::uint32_t block_count = 0;  ///< and how many follow from there.
  friend bool operator==(const SegmentState&, const SegmentState&) = default;
};

/// Valid until the next call.
struct HeapState {
  std::span<const SegmentState> segments;  ///< By address.
  std::span<const BlockState> blocks;
};

/// What a private pool holds from the device: all, small_pool, large_pool, each as current, peak,
/// allocated, freed.
struct PoolReserved {
  PoolKey pool;
  std::int64_t counters[12] = {};
  friend bool operator==(const PoolReserved&, const PoolReserved&) = default;
};

/// The counters of memory_stats(): nine arrays and two single counters as in `PoolReserved`, then
/// single numbers; `statistic_name` names each.
struct StatisticsState {
  std::span<const std::int64_t> values;
  std::span<const PoolReserved> by_pool;  ///< By id; PyTorch 2.6 has none.
};

/// What a private pool takes its segments from.
enum class PoolSource : std::uint8_t { kDevice, kCustomAllocator };

/// A step of a timed program, on the default stream: frees what is in the slot (below kTimedSlots),
/// or puts an allocation there.
struct TimedStep {
  std::uint32_t slot = 0;
  std::uint64_t bytes = 0;
};
inline constexpr std::uint32_t kTimedSlots = 4096;

/// Calls that can fail give false (or no address) and set `error`.
class NativeAllocator {
 public:
  virtual ~NativeAllocator() = default;

  /// Such as "2.15.0".
  [[nodiscard]] virtual const char* version() const = 0;
  /// What the last failed call threw: its type as Python shows it, and its first lines.
  [[nodiscard]] virtual const char* error_type() const = 0;
  [[nodiscard]] virtual const char* error_text() const = 0;

  /// Number 0 is the default stream, the others are made on first use.
  [[nodiscard]] virtual std::uint64_t stream_handle(unsigned stream) = 0;

  /// Makes it the thread's current stream; so does an allocation with its own.
  virtual void use_stream(unsigned stream) = 0;
  [[nodiscard]] virtual std::uint64_t allocate(std::uint64_t bytes, unsigned stream) = 0;
  /// At this address; refused if it is not free.
  [[nodiscard]] virtual std::uint64_t allocate_at(std::uint64_t bytes,
                                                  unsigned stream,
                                                  std::uint64_t address) = 0;
  virtual bool free(std::uint64_t address) = 0;
  virtual bool record_stream(std::uint64_t address, unsigned stream) = 0;
  virtual bool empty_cache() = 0;
  virtual bool set_fraction(double fraction) = 0;
  virtual bool apply_conf(const char* text) = 0;
  virtual void reset_peaks() = 0;
  virtual void reset_accumulated() = 0;

  virtual bool create_pool(PoolKey pool, PoolSource source) = 0;
  /// Requests on this stream (~0: on any) go to the pool.
  virtual bool begin_pool(PoolKey pool, unsigned stream) = 0;
  virtual bool end_pool(PoolKey pool) = 0;
  virtual bool release_pool(PoolKey pool) = 0;
  virtual bool set_use_on_oom(PoolKey pool, bool use) = 0;
  virtual bool set_no_split(PoolKey pool) = 0;

  /// What torch.cuda.graph does: routes the capture's requests to the pool, which is made if it is
  /// new, and begins the capture on the stream (not 0).
  virtual bool begin_capture(PoolKey pool, unsigned stream) = 0;
  /// `joining` waits for an event of `stream`, which is in the capture, and is in it from now on.
  virtual bool join_capture(unsigned stream, unsigned joining) = 0;
  /// Puts a node into the graph, on a stream in the capture.
  virtual bool capture_work(unsigned stream) = 0;
  /// Ends it, after its first stream waited for those that joined.
  virtual bool end_capture() = 0;

  virtual void hold_stream(unsigned stream) = 0;
  virtual void release_stream(unsigned stream) = 0;
  virtual void set_neighbour(std::uint64_t bytes) = 0;
  virtual void fail(const char* kind, std::uint64_t nth, bool onward) = 0;
  virtual void clear_faults() = 0;
  /// Memory that somebody else takes from the runtime directly; 0: none left.
  [[nodiscard]] virtual std::uint64_t device_allocate(std::uint64_t bytes) = 0;
  virtual void device_free(std::uint64_t address) = 0;
  virtual void tag_stream(unsigned stream, const char* reserve_class) = 0;

  [[nodiscard]] virtual std::uint64_t device_total() = 0;
  [[nodiscard]] virtual std::uint64_t device_free_bytes() = 0;
  [[nodiscard]] virtual StatisticsState statistics() = 0;
  [[nodiscard]] virtual HeapState snapshot() = 0;
  /// Traces from now on, which costs time; cannot be taken back.
  virtual void start_events() = 0;
  /// What was traced since the last call.
  [[nodiscard]] virtual std::span<const TraceEvent> take_events() = 0;
  [[nodiscard]] virtual double fraction() = 0;

  /// Runs the steps; nanoseconds. What is in a slot at the end stays there for the next call.
  [[nodiscard]] virtual std::uint64_t time(std::span<const TimedStep> steps) = 0;
};

/// The library's only symbol; called once.
using MakeNativeAllocator = NativeAllocator* (*)();
inline constexpr const char* kMakeNativeAllocator = "fragscope_make_native_allocator";

/// Loads the library; null, with the reason on standard error, if that fails.
[[nodiscard]] MakeNativeAllocator load_native_allocator(const char* library);

}  // namespace fragscope::fidelity
