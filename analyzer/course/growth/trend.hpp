// SPDX-License-Identifier: Apache-2.0
// Whether a series rises, by a slope that single values cannot bend: Theil's and Sen's, the median
// of the slopes between all pairs of values, with the interval that Kendall's test gives (P. K.
// Sen, "Estimates of the regression coefficient based on Kendall's tau", J. Amer. Statist. Assoc.
// 63, 1968, 1379-1389; the interval as in M. Hollander and D. A. Wolfe, "Nonparametric Statistical
// Methods", 2nd ed., section 9.3). And what follows for memory over repeats of the same work
// (docs/growth.md). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fragscope::course {

/// Of a series by its number. With 95 % confidence the true slope lies in [low, high]; the interval
/// is exact for values without ties, and wider than needed with them.
struct Slope {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// Fewer values have no interval at this confidence.
inline constexpr std::size_t kFewestValues = 5;
/// More are put together first, as the medians of neighbours: pairs grow by the square.
inline constexpr std::size_t kMostValues = 256;

/// Of kFewestValues to kMostValues values.
[[nodiscard]] Slope theil_sen(std::span<const double> values);

/// How a layer goes over repeats.
enum class Trend : std::uint8_t {
  kTooFew,     ///< Of repeats, to say anything.
  kPlateau,    ///< After a warm-up, no more growth than `tolerance` could be hidden.
  kGrowth,     ///< It rises, and still does.
  kFall,       ///< It falls, and still does.
  kUndecided,  ///< None of these is shown.
};

struct Judged {
  Trend trend = Trend::kTooFew;
  std::size_t warm_up = 0;   ///< Repeats in front of those that the slope is of.
  Slope slope;               ///< Bytes for each repeat; nothing with kTooFew.
  double tolerance = 0;      ///< Bytes, over all repeats behind the warm-up.
  std::size_t steps = 0;     ///< Rises out of a flat stretch of three repeats or more.
  bool has_stopped = false;  ///< It rose, but not in the second half of what was looked at.
};

/// One value, in bytes, for each repeat.
[[nodiscard]] Judged judge(std::span<const std::uint64_t> values);

}  // namespace fragscope::course
