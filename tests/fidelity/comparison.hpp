// SPDX-License-Identifier: Apache-2.0
// Runs a program on both sides and says where they part.
#pragma once

#include "tests/fidelity/native_side.hpp"
#include "tests/fidelity/policy_side.hpp"

#include <optional>
#include <string>

namespace fragscope::fidelity {

struct Difference {
  std::size_t index = 0;  ///< Of the first operation after which they differ.
  std::string text;       ///< What differs, a line each.
};

class Comparer {
 public:
  Comparer(NativeAllocator& allocator, DeviceFacts facts)
      : facts_(std::move(facts))
      , native_(allocator) {}

  /// Both start empty, and PyTorch's allocator ends so. From the first operation with a difference
  /// on only PyTorch runs, so that it can be emptied.
  [[nodiscard]] std::optional<Difference> run(const Program& program);

  [[nodiscard]] const DeviceFacts& facts() const { return facts_; }
  [[nodiscard]] std::uint64_t programs() const { return programs_; }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }

 private:
  DeviceFacts facts_;
  NativeSide native_;
  std::uint64_t programs_ = 0;
  std::uint64_t operations_ = 0;
};

}  // namespace fragscope::fidelity
