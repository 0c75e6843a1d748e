// SPDX-License-Identifier: Apache-2.0
#include "analyzer/course/growth/period.hpp"

#include <cmath>
#include <map>

namespace fragscope::course {
namespace {

constexpr std::size_t kMostKinds = 1 << 18;
constexpr std::uint64_t kFewestTimes = 4;
constexpr double kMostDeviation = 0.2;  // of the mean gap
constexpr double kLeastShare = 0.5;     // of all allocations, from the first time to the last

}  // namespace

PeriodSearch::Kind PeriodSearch::kind_of(const model::CourseStep& step) {
  const auto stack = static_cast<std::uint32_t>(model::index_of(step.stack));
  return {stack, step.stack == model::kNoStack ? step.requested_bytes : 0, step.stream};
}

bool is_of_period(const Period& period, const model::CourseStep& step) {
  const bool has_stack = period.stack != model::kNoStack;
  return step.stack == period.stack && step.stream == period.stream &&
         (has_stack || step.requested_bytes == period.requested_bytes);
}

void PeriodSearch::take(const model::CourseStep& step) {
  const std::uint64_t number = allocations_++;
  const Kind kind = kind_of(step);
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) {
    if (kinds_.size() == kMostKinds) return;
    found = kinds_.emplace(kind, Times{number, number, 1, 0, 0}).first;
    return;
  }
  Times& times = found->second;
  const auto gap = static_cast<double>(number - times.last);
  times.last = number;
  if (++times.count == 2) return;
  const double before = gap - times.mean;
  times.mean += before / static_cast<double>(times.count - 2);
  times.squares += before * (gap - times.mean);
}

bool PeriodSearch::is_even(const Times& times) const {
  if (times.count < kFewestTimes) return false;
  const auto span = static_cast<double>(times.last - times.first);
  if (span < kLeastShare * static_cast<double>(allocations_)) return false;
  const double deviation = std::sqrt(times.squares / static_cast<double>(times.count - 2));
  return deviation <= kMostDeviation * times.mean;
}

std::optional<Period> PeriodSearch::find() const {
  std::map<std::uint64_t, std::uint64_t> kinds_by_count;
  for (const auto& [kind, times] : kinds_)
    if (is_even(times)) ++kinds_by_count[times.count];
  std::uint64_t count = 0;
  std::uint64_t alike = 0;
  for (const auto& [times, kinds] : kinds_by_count) {
    if (kinds <= alike) continue;
    count = times;
    alike = kinds;
  }
  const Kind* chosen = nullptr;
  const Times* its = nullptr;
  for (const auto& [kind, times] : kinds_) {
    if (times.count != count || !is_even(times)) continue;
    if (its != nullptr && its->first < times.first) continue;
    chosen = &kind;
    its = &times;
  }
  if (chosen == nullptr) return std::nullopt;
  Period period;
  period.stack = model::StackId{chosen->stack};
  period.requested_bytes = chosen->requested_bytes;
  period.stream = chosen->stream;
  period.allocations = its->mean;
  period.deviation = std::sqrt(its->squares / static_cast<double>(its->count - 2));
  period.alike = alike;
  return period;
}

}  // namespace fragscope::course
