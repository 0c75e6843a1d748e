// SPDX-License-Identifier: Apache-2.0
// How the blocks of a private pool lie, so that this can be made again: CUDA graph trees go back to
// an earlier state before they record another branch.
#pragma once

#include "allocator/policy/device/device_memory.hpp"
#include "allocator/policy/statistics.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace fragscope::policy {

struct BlockState {
  Address address = 0;
  std::uint64_t size = 0;
  bool is_allocated = false;
  bool is_mapped = true;
};

struct PoolState {
  PoolId id;
  /// The blocks of each segment, which they tile.
  std::vector<std::vector<BlockState>> segments;
};

/// What `CachingPolicy::restore_pool` did.
struct RestoredPool {
  std::vector<Address> freed;       ///< What was handed out before,
  std::vector<Address> handed_out;  ///< and is now; addresses may be in both.
  std::string_view error;           ///< In PyTorch's words; empty: the pool is as it was.
};

}  // namespace fragscope::policy
