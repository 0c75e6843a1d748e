// SPDX-License-Identifier: Apache-2.0
// The heap of a policy that runs, in the analyzer's terms: what a failed request is judged by in
// the user's job and in a replay. Without stacks.
#pragma once

#include "allocator/policy/caching_policy.hpp"
#include "analyzer/model/heap_state.hpp"

#include <vector>

namespace fragscope::verdict {

struct PolicyHeap {
  model::HeapState heap;
  std::vector<policy::PoolId> pools{policy::PoolId{}};  ///< By the numbers that the heap names.

  /// The number of a pool; a new one for a pool that holds nothing.
  [[nodiscard]] model::PoolIndex number_of(policy::PoolId pool);
};

/// Cost: linear in the blocks, and sorting them.
[[nodiscard]] PolicyHeap heap_of(const policy::CachingPolicy& policy);

}  // namespace fragscope::verdict
