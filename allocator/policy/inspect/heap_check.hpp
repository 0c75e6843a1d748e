// SPDX-License-Identifier: Apache-2.0
// Every invariant of a policy's heap, for tests.
#pragma once

#include "allocator/policy/caching_policy.hpp"

#include <string>

namespace fragscope::policy {

/// The first invariant that does not hold, in words; empty if all do. Cost: linear in the blocks.
[[nodiscard]] std::string broken_invariant(const CachingPolicy& policy);

}  // namespace fragscope::policy
