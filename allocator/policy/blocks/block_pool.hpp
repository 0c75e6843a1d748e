// SPDX-License-Identifier: Apache-2.0
// The free blocks of one pool and class, in the order in which a request tries them.
#pragma once

#include "allocator/policy/blocks/block.hpp"
#include "allocator/policy/size_rules.hpp"
#include "allocator/policy/statistics.hpp"

#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>

namespace fragscope::policy {

struct PrivatePool;

/// By stream, then size; among equals the block of the oldest segment, then the lowest address
/// (PyTorch 2.10 on; before, by address alone, which `segment_number` 0 for all gives).
struct BestFitOrder {
  bool operator()(const Block& a, const Block& b) const {
    if (a.stream != b.stream) return a.stream < b.stream;
    if (a.size != b.size) return a.size < b.size;
    if (a.segment_number != b.segment_number) return a.segment_number < b.segment_number;
    return a.address < b.address;
  }
};

struct AddressOrder {
  bool operator()(const Block& a, const Block& b) const {
    return a.stream != b.stream ? a.stream < b.stream : a.address < b.address;
  }
};

class BlockPool {
 public:
  // No two blocks are equal, but for a replay of a damaged recording, which may tell of an address
  // twice. There a set would leave the second block out, and fail where that is taken out again.
  using FreeSet = boost::intrusive::multiset<Block, boost::intrusive::compare<BestFitOrder>>;
  using UnmappedSet = boost::intrusive::multiset<Block, boost::intrusive::compare<AddressOrder>>;

  explicit BlockPool(SizeClass size_class, PrivatePool* owner = nullptr)
      : size_class_(size_class)
      , owner_(owner) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool() {
    free_.clear();
    unmapped_.clear();
  }

  [[nodiscard]] SizeClass size_class() const { return size_class_; }
  /// Null for the default pool.
  [[nodiscard]] PrivatePool* owner() const { return owner_; }

  void insert_free(Block& block) {
    block.lookups_at_free = lookups_;
    free_.insert(block);
  }
  void erase_free(Block& block) { free_.erase(FreeSet::s_iterator_to(block)); }
  /// `change` gives the free block another address and size. It mostly keeps its place among the
  /// others, which spares searching a new one.
  template <class Change>
  void change_free(Block& block, Change change) {
    change(block);
    const auto place = FreeSet::s_iterator_to(block);
    const auto next = std::next(place);
    const bool is_behind = place == free_.begin() || BestFitOrder{}(*std::prev(place), block);
    if (is_behind && (next == free_.end() || BestFitOrder{}(block, *next))) {
      block.lookups_at_free = lookups_;
      return;
    }
    free_.erase(place);
    insert_free(block);
  }
  void insert_unmapped(Block& block) { unmapped_.insert(block); }
  void erase_unmapped(Block& block) { unmapped_.erase(UnmappedSet::s_iterator_to(block)); }

  /// The first free block of this stream with at least `size` bytes, or the end.
  [[nodiscard]] FreeSet::iterator best_fit(StreamId stream, std::uint64_t size) {
    return free_.lower_bound(std::pair(stream, size), KeyOrder{});
  }
  /// The first unmapped block of this stream, or the end.
  [[nodiscard]] UnmappedSet::iterator first_unmapped(StreamId stream) {
    return unmapped_.lower_bound(stream, StreamOrder{});
  }

  [[nodiscard]] FreeSet& free_blocks() { return free_; }
  [[nodiscard]] const FreeSet& free_blocks() const { return free_; }
  [[nodiscard]] UnmappedSet& unmapped_blocks() { return unmapped_; }

  /// Garbage collection measures age in lookups.
  void count_lookup() { ++lookups_; }
  [[nodiscard]] std::uint64_t lookups() const { return lookups_; }

 private:
  struct KeyOrder {
    bool operator()(const Block& block, const std::pair<StreamId, std::uint64_t>& key) const {
      return block.stream != key.first ? block.stream < key.first : block.size < key.second;
    }
    bool operator()(const std::pair<StreamId, std::uint64_t>& key, const Block& block) const {
      return block.stream != key.first ? key.first < block.stream : key.second < block.size;
    }
  };
  struct StreamOrder {
    bool operator()(const Block& block, StreamId stream) const { return block.stream < stream; }
    bool operator()(StreamId stream, const Block& block) const { return stream < block.stream; }
  };

  SizeClass size_class_;
  PrivatePool* owner_;
  FreeSet free_;
  UnmappedSet unmapped_;
  std::uint64_t lookups_ = 0;
};

/// Memory that only requests routed to it use: of a CUDA graph, or a MemPool.
struct PrivatePool {
  PrivatePool(PoolId pool_id, std::shared_ptr<DeviceMemory> own_source)
      : id(pool_id)
      , source(std::move(own_source)) {}

  PoolId id;
  std::shared_ptr<DeviceMemory> source;  ///< Of its plain segments; null: the device.
  std::uint32_t use_count = 1;           ///< At 0 its cached segments may go back to the device.
  std::uint64_t held_bytes = 0;          ///< From the device, or from `source`.
  bool is_source_empty = false;          ///< What the last request to `source` found.
  bool use_on_oom = false;  ///< Default requests may use its free blocks before they fail.
  bool no_split = false;
  BlockPool small{SizeClass::kSmall, this};
  BlockPool large{SizeClass::kLarge, this};

  [[nodiscard]] BlockPool& of(SizeClass size_class) {
    return size_class == SizeClass::kSmall ? small : large;
  }
};

}  // namespace fragscope::policy
