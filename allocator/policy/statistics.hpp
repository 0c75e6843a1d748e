// SPDX-License-Identifier: Apache-2.0
// The counters of torch.cuda.memory_stats(), with PyTorch's names and meanings.
#pragma once

#include "allocator/policy/size_rules.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

namespace fragscope::policy {

struct Counter {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;  ///< Sum of all increases
  std::int64_t freed = 0;      ///< and of all decreases.

  void add(std::int64_t amount) {
    current += amount;
    peak = std::max(peak, current);
    allocated += amount;
  }
  void subtract(std::int64_t amount) {
    current -= amount;
    freed += amount;
  }
  /// One change in either direction.
  void change(std::int64_t amount) { amount >= 0 ? add(amount) : subtract(-amount); }
  void reset_peak() { peak = current; }
  void reset_accumulated() { allocated = freed = 0; }
};

/// One counter for all blocks and one for each class; blocks of private pools count in theirs.
struct ClassCounters {
  Counter all;
  std::array<Counter, 2> by_class;  ///< small_pool, large_pool

  void add(SizeClass size_class, std::uint64_t amount) {
    all.add(static_cast<std::int64_t>(amount));
    by_class[static_cast<std::size_t>(size_class)].add(static_cast<std::int64_t>(amount));
  }
  void change(SizeClass size_class, std::int64_t amount) {
    all.change(amount);
    by_class[static_cast<std::size_t>(size_class)].change(amount);
  }
  void subtract(SizeClass size_class, std::uint64_t amount) {
    all.subtract(static_cast<std::int64_t>(amount));
    by_class[static_cast<std::size_t>(size_class)].subtract(static_cast<std::int64_t>(amount));
  }
  template <class Do>
  void each(Do action) {
    action(all);
    for (Counter& counter : by_class)
      action(counter);
  }
};

/// Two ids as PyTorch prints them; (0,0) is the default pool.
using PoolId = std::pair<std::uint64_t, std::uint64_t>;

struct Statistics {
  ClassCounters allocation;       ///< Blocks handed out; ends when they are freed.
  ClassCounters allocated_bytes;  ///< Their sizes.
  ClassCounters active;           ///< Handed out or pending; ends when the free is complete.
  ClassCounters active_bytes;
  ClassCounters requested_bytes;  ///< What the holders of active blocks asked for.
  ClassCounters segment;          ///< Plain segments; expandable ones do not count.
  ClassCounters reserved_bytes;   ///< Plain segments and mapped pages.
  ClassCounters inactive_split;   ///< Free blocks with a neighbour, in plain segments.
  ClassCounters inactive_split_bytes;
  /// The part of each private pool that was ever used (since 2.13).
  std::map<PoolId, ClassCounters> reserved_bytes_by_pool;
  Counter oversize_allocations;  ///< Blocks of max_split_size or more, handed out.
  Counter oversize_segments;
  std::int64_t num_alloc_retries = 0;  ///< Attempts after everything cached was given back.
  std::int64_t num_ooms = 0;
  std::int64_t num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0;  ///< Segments obtained and ranges mapped.
  std::int64_t num_device_free = 0;
  std::int64_t num_oom_rejections = 0;  ///< throw_on_cudamalloc_oom: refused without asking.

  /// reset_peak_memory_stats
  void reset_peaks() {
    each([](Counter& counter) { counter.reset_peak(); });
  }
  /// reset_accumulated_memory_stats
  void reset_accumulated() {
    each([](Counter& counter) { counter.reset_accumulated(); });
    num_alloc_retries = num_ooms = num_sync_all_streams = 0;
    num_device_alloc = num_device_free = num_oom_rejections = 0;
  }

 private:
  template <class Do>
  void each(Do action) {
    for (ClassCounters* counters : {&allocation,
                                    &allocated_bytes,
                                    &active,
                                    &active_bytes,
                                    &requested_bytes,
                                    &segment,
                                    &reserved_bytes,
                                    &inactive_split,
                                    &inactive_split_bytes}) {
      counters->each(action);
    }
    for (auto& [id, counters] : reserved_bytes_by_pool)
      counters.each(action);
    action(oversize_allocations);
    action(oversize_segments);
  }
};

}  // namespace fragscope::policy
