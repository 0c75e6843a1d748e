// SPDX-License-Identifier: Apache-2.0
// What a policy holds, as torch.cuda.memory_snapshot() shows it.
#pragma once

#include "allocator/policy/device/device_memory.hpp"
#include "allocator/policy/statistics.hpp"

#include <cstdint>
#include <vector>

namespace fragscope::policy {

class CachingPolicy;

struct BlockSnapshot {
  std::uint64_t size = 0;
  std::uint64_t requested_size = 0;  ///< Of an inactive block: of its last holder, or 0.
  bool is_allocated = false;
  bool is_active = false;     ///< Allocated, or freed and still waiting for other streams.
  std::uint64_t lookups = 0;  ///< Of its pool since it became free; 0 for any other.
};

/// A plain segment, or one contiguous mapped range of an expandable one. Sizes are bytes.
struct SegmentSnapshot {
  Address address = 0;
  std::uint64_t total_size = 0;
  std::uint64_t requested_size = 0;  ///< Of the active blocks, as the two below.
  std::uint64_t allocated_size = 0;
  std::uint64_t active_size = 0;
  StreamId stream = 0;
  std::uint64_t number = 0;  ///< Counts segments in the order they were obtained.
  SizeClass size_class = SizeClass::kSmall;
  PoolId pool;
  bool is_expandable = false;
  std::vector<BlockSnapshot> blocks;  ///< They tile the segment, in the order of addresses.
};

/// Every segment, by address. Cost: linear in the blocks, and sorting them.
[[nodiscard]] std::vector<SegmentSnapshot> snapshot(const CachingPolicy& policy);

}  // namespace fragscope::policy
