// SPDX-License-Identifier: Apache-2.0
// Whether the policy, asked the same, decides the same: the same blocks at the same addresses, the
// same segments, the same refusals. What makes a verdict proven instead of plausible.
#pragma once

#include "analyzer/whatif/program/program.hpp"
#include "analyzer/whatif/replay.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace fragscope::whatif {

struct Difference {
  std::size_t op = 0;
  std::string what;  ///< Both decisions, in words.
};

struct Verification {
  std::string problem;  ///< The recorded options are not ones that this policy takes.
  std::optional<Difference> first;
  std::size_t agreed = 0;  ///< Ops in front of it, or all.
  std::uint64_t requests = 0;
  std::uint64_t refusals = 0;
};

/// Stops at the first difference. Cost: that of the ops. Memory: the heap's.
[[nodiscard]] Verification verify(const Program& program, const Tick& tick = {});

}  // namespace fragscope::whatif
