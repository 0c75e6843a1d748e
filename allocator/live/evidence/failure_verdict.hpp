// SPDX-License-Identifier: Apache-2.0
// What stood in the way of a request that just failed, by the same ladder as `fragscope analyze`,
// asked of the heap as it is: no trace is read for it.
#pragma once

#include "allocator/policy/caching_policy.hpp"

#include <string>

namespace fragscope::live {

/// One sentence or two with the numbers in them, and in front the verdict's kind and how sure it
/// is. `policy` is as it was when its last request failed, for lack of memory. Cost: linear in the
/// blocks. Throws std::bad_alloc.
[[nodiscard]] std::string failure_verdict(const policy::CachingPolicy& policy,
                                          std::int32_t device,
                                          policy::StreamId stream);

}  // namespace fragscope::live
