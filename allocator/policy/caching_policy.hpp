// SPDX-License-Identifier: Apache-2.0
// PyTorch's CUDA caching allocator for one device, as rules over books: which block serves a
// request, what is asked of the device on a miss and in which order, what goes back when. It
// touches no memory. The live allocator and replay both run it, so they cannot disagree.
// Rules: docs/policy.md. Not thread-safe: PyTorch holds one lock for each device, and so does
// whoever calls this.
#pragma once

#include "allocator/policy/blocks/block.hpp"
#include "allocator/policy/blocks/block_pool.hpp"
#include "allocator/policy/blocks/block_store.hpp"
#include "allocator/policy/blocks/observer.hpp"
#include "allocator/policy/conf/allocator_conf.hpp"
#include "allocator/policy/conf/torch_version.hpp"
#include "allocator/policy/device/device_memory.hpp"
#include "allocator/policy/inspect/heap_image.hpp"
#include "allocator/policy/inspect/pool_state.hpp"
#include "allocator/policy/size_rules.hpp"
#include "allocator/policy/statistics.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace fragscope::policy {

struct PolicyOptions {
  TorchVersion version = TorchVersion::kTorch215;
  AllocatorConf conf;
};

/// One address range of which pages are mapped as they are needed.
struct ExpandableSegment {
  Address base = 0;
  std::uint64_t size = 0;
  std::uint64_t page_size = 0;
  std::uint64_t mapped_bytes = 0;
};

/// Why a request failed, with what PyTorch's message says of it.
struct AllocationFailure {
  enum class Kind : std::uint8_t {
    kOutOfMemory,
    kBeyondAnExbibyte,
    kRejected,  ///< By throw_on_cudamalloc_oom; of the figures below only the first is known.
  };
  Kind kind = Kind::kOutOfMemory;
  std::uint64_t requested_size = 0;
  std::uint64_t rounded_size = 0;
  std::uint64_t device_allocation = 0;  ///< "Tried to allocate"
  PoolId pool;
  Capacity capacity;
  std::optional<std::uint64_t> limit_bytes;
  std::uint64_t allocated_bytes = 0;  ///< Without idle bytes of private pools.
  std::uint64_t reserved_bytes = 0;
  std::uint64_t private_free_bytes = 0;
  bool is_source_empty = false;  ///< The pool's own allocator had nothing.
  /// What the options reserve for an expandable segment of this stream; none if they do not say.
  std::optional<std::uint64_t> reserve_bytes;
  std::string reserve_class;  ///< Of the stream; empty: none.
};

class CachingPolicy {
 public:
  /// `memory` and `events` outlive the policy; `observer` may be null.
  CachingPolicy(DeviceMemory& memory,
                StreamEvents& events,
                PolicyOptions options = {},
                Observer* observer = nullptr);
  CachingPolicy(const CachingPolicy&) = delete;
  CachingPolicy& operator=(const CachingPolicy&) = delete;
  ~CachingPolicy() = default;

  /// Takes over a heap that exists already, which must be sound (`is_sound`); for a policy that has
  /// none yet. The device and the observer hear nothing of it.
  void adopt(const HeapImage& image);

  /// A block of at least `bytes` (not 0) for work on `stream`; null if there is none, see
  /// `failure`. Cost: a best-fit lookup, logarithmic in the free blocks of the pool; no heap
  /// allocation where a free block serves the request.
  [[nodiscard]] Block* allocate(std::uint64_t bytes, StreamId stream);
  /// The memory at `address` (a multiple of kMinBlockSize), if a free block of the pool that serves
  /// such a request holds it: for a tensor that was there before, as graphs need it. Null if it is
  /// not free; the device is not asked. Since PyTorch 2.15. Cost: linear in the pool's free blocks.
  [[nodiscard]] Block* allocate_at(std::uint64_t bytes, StreamId stream, Address address);
  /// Whether a free block would serve such a request, so that the device would not be asked. What
  /// other streams are done with by now is free afterwards, as it would be.
  [[nodiscard]] bool could_serve(std::uint64_t bytes, StreamId stream);
  /// Why the last `allocate` that gave null did.
  [[nodiscard]] const AllocationFailure& failure() const { return failure_; }

  /// False, with nothing done, if no block was handed out at this address. Cost: a lookup, and a
  /// logarithmic one where the block does not merge in place; no heap allocation unless other
  /// streams used the block.
  [[nodiscard]] bool free(Address address);
  /// The block that was handed out at this address; null if none was.
  [[nodiscard]] Block* find(Address address) const;
  /// The block is used by work on `stream` too, which its reuse has to wait for.
  void record_stream(Block& block, StreamId stream);

  /// Gives everything back that nobody uses (torch.cuda.empty_cache), or of one private pool alone.
  /// False, with nothing done, if PyTorch refuses it: up to 2.9, while a capture is underway or
  /// requests are routed to a pool.
  [[nodiscard]] bool empty_cache(PoolId pool = {});

  /// set_per_process_memory_fraction (0 to 1): a limit on what is held from the device. 1 means
  /// none; up to 2.9 it is a limit too, and there is no way back to none.
  void set_memory_fraction(double fraction);
  /// The same as bytes; none: no limit.
  void set_limit(std::optional<std::uint64_t> bytes);
  [[nodiscard]] std::optional<std::uint64_t> limit() const { return limit_; }
  void set_options(const PolicyOptions& options) { options_ = options; }
  /// What is called where no free block serves a request, before the device is asked; true if it
  /// freed something, and the search is done once more. It may call `free`.
  void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
  /// Null: nobody.
  void set_observer(Observer* observer) { observer_ = observer; }
  /// Expandable segments that the stream gets from now on reserve what the options say for this
  /// class; an empty one takes the tag away.
  void set_reserve_class(StreamId stream, std::string reserve_class);
  [[nodiscard]] const PolicyOptions& options() const { return options_; }

  /// A new pool, or one more user of it. `source` gives its segments (none of them expandable) in
  /// place of the device, as long as the pool lives; for a pool that holds nothing yet.
  void create_pool(PoolId id, std::shared_ptr<DeviceMemory> source = nullptr);
  using StreamFilter = std::function<bool(StreamId)>;
  /// Routes requests on streams that `filter` accepts to the pool, which is made if it is new and
  /// gets one more user. Of several scopes the one opened last is asked first (2.6: the first).
  /// False, with the user counted but no scope opened, if one is open for this pool.
  bool begin_allocate_to_pool(PoolId id, StreamFilter filter);
  // The four below give false, with nothing done, for a pool that is not known, not open, or has no
  // user.
  bool end_allocate_to_pool(PoolId id);
  /// One user less; without users its cached segments may go back.
  bool release_pool(PoolId id);
  bool set_use_on_oom(PoolId id, bool use_on_oom);
  bool set_no_split(PoolId id, bool no_split);
  /// 0 for one that is not known.
  [[nodiscard]] std::uint32_t pool_use_count(PoolId id) const;
  /// Whether exactly the blocks at these addresses are handed out of the pool.
  [[nodiscard]] bool has_live_blocks(PoolId id, const std::unordered_set<Address>& expected);
  /// How its blocks lie; none if it is not known or has no user.
  [[nodiscard]] std::optional<PoolState> pool_state(PoolId id);
  /// Frees what is handed out of the pool and makes its blocks lie as they did. Segments that it
  /// got since then stay, free. Stops at the first thing that does not fit.
  [[nodiscard]] RestoredPool restore_pool(const PoolState& state);

  /// Where the current stream is in a capture no event is asked for, and the default pool gives
  /// back oversize blocks and garbage only.
  void begin_capture() { ++captures_; }
  /// False if none is underway.
  bool end_capture();
  [[nodiscard]] bool is_capture_underway() const { return captures_ > 0; }

  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  [[nodiscard]] Statistics& statistics() { return statistics_; }
  /// Everything held from the device, in bytes.
  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] bool has_expandable_segments() const { return !expandable_.empty(); }
  /// In any pool; 0 if there is none. Cost: linear in the free blocks.
  [[nodiscard]] std::uint64_t largest_free_block() const;

  /// Every block, also free and unmapped ones, by address. Cost: linear; for snapshots and checks.
  [[nodiscard]] std::vector<const Block*> blocks() const;
  /// Calls `visit` with every block: segment by segment in no order, within each by address.
  template <class Visit>
  void visit_blocks(Visit visit) const {
    store_.visit_used([&visit](const Block& first) {
      if (first.prev != nullptr) return;
      for (const Block* block = &first; block != nullptr; block = block->next)
        visit(*block);
    });
  }
  [[nodiscard]] std::size_t block_count() const { return store_.used_count(); }

 private:
  struct Request {
    std::uint64_t bytes = 0;
    std::uint64_t size = 0;
    std::uint64_t device_allocation = 0;
    StreamId stream = 0;
    BlockPool* pool = nullptr;
    bool expandable = false;
  };
  struct Scope {
    PoolId id;
    StreamFilter filter;
  };
  /// A block freed within a capture that other streams used.
  struct DeferredFree {
    Block* block;
    std::vector<CaptureNode> last_uses;  ///< Where they end in the graph; empty: not known.
  };
  struct PendingEvent {
    EventId event;
    Block* block;
  };

  // Finding a block.
  [[nodiscard]] Request make_request(std::uint64_t bytes, StreamId stream);
  [[nodiscard]] BlockPool& pool_for(SizeClass size_class, StreamId stream);
  [[nodiscard]] PrivatePool* find_pool(PoolId id);
  [[nodiscard]] PrivatePool* private_pool_for(StreamId stream);
  [[nodiscard]] Block* find_free(const Request& request);
  [[nodiscard]] Block* free_block_around(const Request& request, Address address);
  [[nodiscard]] Block* serve_miss(Request& request);
  [[nodiscard]] Block* take_from_lenders(Request& request);
  [[nodiscard]] Block* from_device(const Request& request);
  [[nodiscard]] Block* new_segment(const Request& request);
  [[nodiscard]] bool is_over_limit(std::uint64_t more_bytes) const;
  [[nodiscard]] bool is_rejected(const Request& request) const;
  [[nodiscard]] bool is_to_split(const Block& block, const Request& request) const;
  Block& hand_out(Block& block, const Request& request, bool splits);
  Block& split(Block& block, std::uint64_t size);
  void report_failure(const Request& request);
  void report_rejection(const Request& request);

  // Freeing one.
  void complete_free(Block& block);
  [[nodiscard]] static bool can_merge(const Block& block, const Block* neighbour);
  void absorb(Block& block, Block& neighbour);
  void merge_neighbours(Block& block);
  void insert_events(Block& block);
  void insert_deferred_events();
  void defer_free(Block& block);
  void end_deferral(Block& block);
  void free_deferred(StreamId stream);
  /// Whether events may be neither asked for nor recorded here: the thread's current stream is in a
  /// capture (up to 2.9: any is, or a scope is open).
  [[nodiscard]] bool is_capturing() const;
  /// Frees that waited for other streams, as far as a request may know of them.
  void complete_frees(StreamId stream);
  void process_events();
  void wait_for_events(const PrivatePool* only = nullptr);

  // Giving memory back.
  [[nodiscard]] bool release_oversize(const Request& request);
  void release_cached(PoolId only = {});
  void release_blocks(BlockPool& pool);
  void release_segment(Block& block);
  void collect_garbage();

  // Checkpoints of private pools.
  [[nodiscard]] std::vector<Block*> first_blocks(const PrivatePool& pool);
  void restore_segment(Block& first,
                       const std::vector<BlockState>& segment,
                       RestoredPool& restored);

  // Expandable segments.
  [[nodiscard]] Block* grow(const Request& request);
  [[nodiscard]] Block* find_address_space(const Request& request);
  [[nodiscard]] Block* new_address_space(const Request& request);
  [[nodiscard]] const std::string& reserve_class_of(StreamId stream) const;
  [[nodiscard]] std::optional<std::uint64_t> configured_reserve(StreamId stream) const;
  [[nodiscard]] Block* map_pages(Block& block, std::uint64_t size);
  void unmap_pages(Block& block);
  void insert_after(Block& block, Block& added);
  [[nodiscard]] Block& make_like(const Block& block, Address address, std::uint64_t size);

  [[nodiscard]] DeviceMemory& source_of(const BlockPool& pool);
  void adopt(const ImageSegment& segment);
  void adopt(Block& block, const ImageBlock& state);

  void count_handed_out(const Block& block);
  void count_held(const Block& block, std::int64_t bytes);
  void count_inactive(const Block& block, std::int64_t blocks, std::int64_t bytes);

  DeviceMemory& memory_;
  StreamEvents& events_;
  PolicyOptions options_;
  Observer* observer_;
  BlockStore store_;
  BlockPool small_{SizeClass::kSmall};
  BlockPool large_{SizeClass::kLarge};
  std::map<PoolId, std::unique_ptr<PrivatePool>> private_pools_;
  std::vector<std::unique_ptr<ExpandableSegment>> expandable_;
  std::map<StreamId, std::string> reserve_classes_;
  absl::flat_hash_map<Address, Block*> handed_out_;
  std::map<StreamId, std::deque<PendingEvent>> pending_;
  std::vector<DeferredFree> deferred_;
  absl::flat_hash_map<Block*, std::vector<StreamId>> used_in_capture_;
  std::vector<Scope> scopes_;
  std::uint32_t captures_ = 0;
  std::optional<std::uint64_t> limit_;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t segments_made_ = 0;
  Statistics statistics_;
  AllocationFailure failure_;
  std::function<bool()> reclaim_;
  bool is_rejected_ = false;  // an attempt of the last miss, by throw_on_cudamalloc_oom
};

}  // namespace fragscope::policy
