// SPDX-License-Identifier: Apache-2.0
// Runs a program on both sides and says where they part.
#pragma once

#include "tests/fidelity/native/native_allocator.hpp"
#include "tests/fidelity/program/operation.hpp"

#include <optional>
#include <string>

namespace fragscope::fidelity {

struct Difference {
  std::size_t index = 0;  ///< Of the first operation after which they differ.
  std::string text;       ///< What differs, a line each.
};

struct Comparison {
  std::optional<Difference> difference;
  std::uint64_t operations = 0;  ///< Run, with those that end what the program left open.
};

/// Runs the program on both sides, and then what ends all that it left open. From the first
/// operation with a difference on nothing more runs. PyTorch's allocator must be as new.
[[nodiscard]] Comparison compare(const Program& program, NativeAllocator& allocator);

}  // namespace fragscope::fidelity
