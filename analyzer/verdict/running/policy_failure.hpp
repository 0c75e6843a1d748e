// SPDX-License-Identifier: Apache-2.0
// The verdict on a request that a running policy has just refused.
#pragma once

#include "allocator/policy/caching_policy.hpp"
#include "analyzer/verdict/ladder.hpp"

#include <cstdint>
#include <string_view>

namespace fragscope::verdict {

/// `policy.failure()` is the refusal, of a request on `stream`. `device_source` names who says what
/// the device has: "the driver".
[[nodiscard]] Judgement judge_failure(const policy::CachingPolicy& policy,
                                      std::int32_t device,
                                      policy::StreamId stream,
                                      std::string_view device_source);

}  // namespace fragscope::verdict
