// SPDX-License-Identifier: Apache-2.0
// A heap that exists already, for a policy that is to go on from it: replay begins where the
// history of a recording does.
#pragma once

#include "allocator/policy/device/device_memory.hpp"
#include "allocator/policy/size_rules.hpp"
#include "allocator/policy/statistics.hpp"

#include <cstdint>
#include <vector>

namespace fragscope::policy {

struct ImageBlock {
  Address address = 0;
  std::uint64_t size = 0;
  std::uint64_t requested_size = 0;  ///< Of one that is handed out.
  bool is_allocated = false;
};

/// A plain segment, which its blocks tile; or the address space of an expandable one: what no block
/// covers is not mapped.
struct ImageSegment {
  Address address = 0;
  std::uint64_t size = 0;
  std::uint64_t page_size = 0;  ///< 0: a plain segment.
  StreamId stream = 0;
  PoolId pool;
  SizeClass size_class = SizeClass::kSmall;
  /// Rises in the order in which segments were obtained: among blocks of one size the oldest
  /// segment's is taken first. 0 for all where that is not known.
  std::uint64_t number = 0;
  std::vector<ImageBlock> blocks;  ///< By address.
};

struct HeapImage {
  std::vector<ImageSegment> segments;
};

/// Whether it can be: blocks lie within their segment in order, they tile it if it is a plain one,
/// and no byte belongs to two blocks, no address to two segments.
[[nodiscard]] bool is_sound(const HeapImage& image);

}  // namespace fragscope::policy
