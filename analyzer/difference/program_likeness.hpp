// SPDX-License-Identifier: Apache-2.0
// Whether two recordings are of the same program: by what was asked of the allocator, which no
// setting of the allocator changes. Used by `difference`. Cost: one pass over both.
#pragma once

#include "analyzer/whatif/program/program.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::difference {

/// What a program asked for, in order: requests, and of which request each free is.
struct Requests {
  std::vector<std::uint64_t> steps;  ///< Alike if and only if, but for chance, they ask the same.
  std::vector<std::uint64_t> sizes;  ///< Of requests, ascending.
  std::vector<std::size_t> step_of_request;
  std::uint64_t refused = 0;
  bool from_the_start = false;  ///< The heap was empty, so that it is all from the begin on.
};

[[nodiscard]] Requests requests_of(const whatif::Program& program);

enum class Likeness : std::uint8_t {
  kSame,     ///< Step by step, as far as the shorter one goes.
  kSimilar,  ///< Not in this order, but nearly the same sizes: it cannot be told.
  kOther,
  kUnknown,  ///< A history is missing, or does not reach back to the begin.
};

struct ProgramLikeness {
  Likeness likeness = Likeness::kUnknown;
  std::string basis;  ///< By what it was told, or why it cannot be.
  std::uint64_t first_requests = 0;
  std::uint64_t second_requests = 0;
  std::uint64_t common_requests = 0;  ///< From the begin, until the first that differs.
  std::uint64_t paired_requests = 0;  ///< With one of the same size in the other, in any order.
};

[[nodiscard]] ProgramLikeness compare(const Requests& first, const Requests& second);

}  // namespace fragscope::difference
