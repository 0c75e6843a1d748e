// SPDX-License-Identifier: Apache-2.0
#include "analyzer/course/growth/trend.hpp"

#include <algorithm>
#include <cmath>

namespace fragscope::course {
namespace {

constexpr double kHalfOfError = 0.025;  // of 95 %, on each side
constexpr double kNegligible = 0.01;    // of what is live
constexpr double kNegligibleBytes = 1 << 20;

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// For n values without ties, the least S for which P(Kendall's S >= S) is at most half of the
/// error, by the distribution itself; 0 where there is none.
class KendallTable {
 public:
  KendallTable() {
    // Of each n, the probability of each number of inversions: one value more adds 0 to n - 1.
    std::vector<double> probability{1};
    for (std::size_t n = 2; n <= kMostValues; ++n) {
      const std::size_t pairs = n * (n - 1) / 2;
      std::vector<double> next(pairs + 1, 0);
      double window = 0;
      for (std::size_t i = 0; i <= pairs; ++i) {
        if (i < probability.size()) window += probability[i];
        if (i >= n && i - n < probability.size()) window -= probability[i - n];
        next[i] = window / static_cast<double>(n);
      }
      probability = std::move(next);
      double tail = 0;
      std::size_t fewest = 0;  // inversions
      while (fewest <= pairs && tail + probability[fewest] <= kHalfOfError)
        tail += probability[fewest++];
      critical_[n] = fewest == 0 ? 0 : pairs - 2 * (fewest - 1);
    }
  }
  [[nodiscard]] std::size_t critical(std::size_t n) const { return critical_[n]; }

 private:
  std::size_t critical_[kMostValues + 1] = {};
};

std::size_t critical_value(std::size_t n) {
  static const KendallTable table;
  return table.critical(n);
}

std::vector<double> thinned(std::span<const std::uint64_t> values, std::size_t together) {
  std::vector<double> medians;
  for (std::size_t first = 0; first < values.size(); first += together) {
    const auto bin = values.subspan(first, std::min(together, values.size() - first));
    medians.push_back(median_of(std::vector<double>(bin.begin(), bin.end())));
  }
  return medians;
}

/// What could be hidden without mattering: a hundredth, or a mebibyte.
double tolerance_of(std::span<const double> values) {
  return std::max(kNegligibleBytes,
                  kNegligible * median_of(std::vector<double>(values.begin(), values.end())));
}

struct Stretches {
  std::size_t steps = 0;
  std::size_t longest_before_a_step = 0;
};

/// Flat stretches of at least three values that a rise ends.
Stretches stretches_of(std::span<const double> values, double tolerance) {
  Stretches found;
  std::size_t begin = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (std::abs(values[i] - values[begin]) <= tolerance) continue;
    const std::size_t length = i - begin;
    if (length >= 3 && values[i] > values[begin]) {
      ++found.steps;
      found.longest_before_a_step = std::max(found.longest_before_a_step, length);
    }
    begin = i;
  }
  return found;
}

/// The median slope alone.
double median_slope(std::span<const double> values) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j)
      slopes.push_back((values[j] - values[i]) / static_cast<double>(j - i));
  }
  return slopes.empty() ? 0 : median_of(std::move(slopes));
}

class Judge {
 public:
  explicit Judge(std::span<const double> values)
      : values_(values) {}

  [[nodiscard]] Judged judge() {
    if (values_.size() < kFewestValues + 1) return {};
    if (find_direction()) return found_;
    if (find_plateau()) return found_;
    return found_;
  }

 private:
  [[nodiscard]] std::span<const double> behind(std::size_t warm_up) const {
    return values_.subspan(warm_up);
  }

  // A quarter is taken for warm-up, and what is left must rise, its second half too.
  bool find_direction() {
    const std::size_t quarter = std::max<std::size_t>((values_.size() + 3) / 4, 1);
    found_.warm_up = std::min(quarter, values_.size() - kFewestValues);
    const auto tail = behind(found_.warm_up);
    found_.slope = theil_sen(tail);
    found_.tolerance = tolerance_of(tail);
    found_.steps = stretches_of(values_, found_.tolerance).steps;
    found_.trend = Trend::kUndecided;
    const double late = median_slope(tail.subspan(tail.size() - (tail.size() + 1) / 2));
    if (found_.slope.low > 0 && late > 0) found_.trend = Trend::kGrowth;
    if (found_.slope.high < 0 && late < 0) found_.trend = Trend::kFall;
    found_.has_stopped = found_.slope.low > 0 && late <= 0;
    return found_.trend != Trend::kUndecided;
  }

  // Behind the shortest warm-up, a slope of which neither end of the interval would come to more
  // than is negligible. Where it rose in steps before, the last stretch must be the longest.
  bool find_plateau() {
    const std::size_t fewest = std::max(kFewestValues, (values_.size() + 2) / 3);
    for (std::size_t warm_up = 0; warm_up + fewest <= values_.size(); ++warm_up) {
      const auto tail = behind(warm_up);
      const Slope slope = theil_sen(tail);
      const double tolerance = tolerance_of(tail);
      const auto length = static_cast<double>(tail.size() - 1);
      const bool includes_none = slope.low <= 0 && slope.high >= 0;
      const bool is_flat = std::max(-slope.low, slope.high) * length <= tolerance;
      if (!includes_none || !is_flat) continue;
      const Stretches before = stretches_of(values_.first(warm_up + 1), tolerance);
      if (before.steps > 1 && before.longest_before_a_step >= tail.size()) continue;
      found_ = {Trend::kPlateau, warm_up, slope, tolerance, before.steps, false};
      return true;
    }
    return false;
  }

  std::span<const double> values_;
  Judged found_;
};

}  // namespace

Slope theil_sen(std::span<const double> values) {
  std::vector<double> slopes;
  slopes.reserve(values.size() * (values.size() - 1) / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j)
      slopes.push_back((values[j] - values[i]) / static_cast<double>(j - i));
  }
  const std::size_t pairs = slopes.size();
  // Hollander and Wolfe: C = k - 2; the interval is from the Mth to the (M + C + 1)th slope.
  const std::size_t c = critical_value(values.size()) - 2;
  const std::size_t m = (pairs - c) / 2;
  const auto at = [&slopes](std::size_t place) {
    const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(place - 1);
    std::ranges::nth_element(slopes, middle);
    return *middle;
  };
  const double low = at(m);
  const double high = at(m + c + 1);
  return {median_of(std::move(slopes)), low, high};
}

Judged judge(std::span<const std::uint64_t> values) {
  const std::size_t together = (values.size() + kMostValues - 1) / kMostValues;
  const std::vector<double> series = thinned(values, std::max<std::size_t>(together, 1));
  Judged found = Judge(series).judge();
  if (together <= 1) return found;
  const auto count = static_cast<double>(together);
  found.warm_up *= together;
  found.slope = {found.slope.median / count, found.slope.low / count, found.slope.high / count};
  return found;
}

}  // namespace fragscope::course
