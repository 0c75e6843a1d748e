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

/// Reads max_split_size_mb, max_non_split_rounding_mb, large_segment_size_mb, expandable_segments,
/// a scalar roundup_power2_divisions and per_process_memory_fraction; the last of a key wins.
[[nodiscard]] SizeOptions read_size_options(std::string_view conf);

}  // namespace fragscope::policy
