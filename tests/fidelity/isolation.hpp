// SPDX-License-Identifier: Apache-2.0
// Compares programs in processes of their own: PyTorch's allocator cannot be made as new (address
// space, settings and counters stay), and a crash in it is a difference like any other.
#pragma once

#include "allocator/policy/inspect/rules.hpp"
#include "tests/fidelity/comparison.hpp"

#include <array>
#include <cstdint>

namespace fragscope::fidelity {

class Isolation {
 public:
  /// The library must be loaded, and nothing in it called yet.
  explicit Isolation(MakeNativeAllocator make_allocator)
      : make_allocator_(make_allocator) {}

  /// Runs a program in a new process and waits for it.
  [[nodiscard]] std::optional<Difference> compare(const Program& program);

  [[nodiscard]] std::uint64_t programs() const { return programs_; }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }
  /// Uses of each rule, by `policy::Rule`.
  [[nodiscard]] const auto& rule_counts() const { return rule_counts_; }

 private:
  MakeNativeAllocator make_allocator_;
  std::uint64_t programs_ = 0;
  std::uint64_t operations_ = 0;
  std::array<std::uint64_t, policy::kRuleCount> rule_counts_{};
};

}  // namespace fragscope::fidelity
