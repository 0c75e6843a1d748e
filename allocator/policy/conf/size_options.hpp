// SPDX-License-Identifier: Apache-2.0
// The size options out of a PYTORCH_CUDA_ALLOC_CONF string that PyTorch has already accepted, as a
// snapshot carries it. Reading is lenient: what is not understood keeps its default. Pure.
#pragma once

#include "allocator/policy/size_rules.hpp"

#include <optional>
#include <string_view>

namespace fragscope::policy {

/// What the string decides about sizes.
struct SizeOptions {
  SizeRules rules;
  std::optional<double> memory_fraction;  ///< per_process_memory_fraction, 0 to 1.
};

/// Reads the options that SizeRules holds and per_process_memory_fraction, by the rules of 2.15,
/// which accepts the sizes that older versions do; the last of a key that is understood wins. Only
/// where `>` begins in a list of roundup_power2_divisions differs by version; a snapshot that is
/// new enough to have the string spells the divisions out, too.
[[nodiscard]] SizeOptions read_size_options(std::string_view conf);

}  // namespace fragscope::policy
