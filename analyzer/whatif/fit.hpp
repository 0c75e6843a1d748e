// SPDX-License-Identifier: Apache-2.0
// The smallest device on which a program fits, for each of several settings. Fitting is not
// monotone in the size: a little more memory can make the allocator take a segment where it had
// released some before, and fail later. So a size is sought from which on every larger one that was
// tried fits, and what was tried is said.
#pragma once

#include "analyzer/whatif/variant.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::whatif {

/// What sizes are told apart by: what the driver hands out.
inline constexpr std::uint64_t kFitStep = 2 * policy::kMiB;

struct Fit {
  Variant variant;  ///< On the smallest device.
  /// Sizes below it that fit, too, though a larger one does not.
  std::vector<std::uint64_t> islands;
  std::uint64_t sizes_tried = 0;
  /// Every multiple of `kFitStep` from here up to `dense_until` was tried, and coarser ones up to
  /// `sparse_until`, from which on a run is the same on every device.
  std::uint64_t dense_until = 0;
  std::uint64_t sparse_until = 0;
  Outcome outcome;  ///< On the smallest device.
};

/// The settings that are worth a try beside the recorded ones, as option strings.
[[nodiscard]] const std::vector<std::string>& settings_worth_trying();

/// `variant`'s device is not looked at; what others hold of it is. None if the program does not fit
/// any device. Cost: some hundred runs.
[[nodiscard]] std::optional<Fit> find_fit(const Program& program, const Variant& variant);

/// Of all variants, side by side on as many threads as the machine has; the least device first.
[[nodiscard]] std::vector<Fit> find_fits(const Program& program,
                                         std::vector<Variant> variants,
                                         const Tick& tick = {});

}  // namespace fragscope::whatif
