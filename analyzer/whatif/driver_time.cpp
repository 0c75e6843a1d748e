// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/driver_time.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

namespace fragscope::whatif {
namespace {

std::uint64_t median_of(std::vector<std::uint32_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

CallTimes times_of(std::vector<std::uint32_t> nanoseconds) {
  CallTimes times;
  if (nanoseconds.empty()) return times;
  times.calls = nanoseconds.size();
  times.median_ns = median_of(nanoseconds);
  times.total_ns = std::accumulate(nanoseconds.begin(), nanoseconds.end(), std::uint64_t{0});
  return times;
}

/// By `DeviceCall::Kind`.
std::array<std::uint64_t, kDeviceCallKinds> calls_of(const Outcome& outcome) {
  return {outcome.driver_allocations - outcome.page_maps,
          outcome.driver_frees - outcome.page_unmaps,
          outcome.page_maps,
          outcome.page_unmaps};
}

}  // namespace

DriverTimes driver_times(const Program& program) {
  std::array<std::vector<std::uint32_t>, kDeviceCallKinds> measured;
  for (const DeviceCall& call : program.device_calls) {
    if (call.nanoseconds > 0) {
      measured[static_cast<std::size_t>(call.kind)].push_back(call.nanoseconds);
    }
  }
  DriverTimes times;
  std::ranges::transform(measured, times.begin(), times_of);
  return times;
}

std::optional<std::uint64_t> estimated_ns(const DriverTimes& times,
                                          const Variant& variant,
                                          const Outcome& outcome) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  if (variant.arena) return std::nullopt;
  const auto calls = calls_of(outcome);
  std::uint64_t sum = 0;
  for (std::size_t kind = 0; kind < calls.size(); ++kind) {
    if (calls[kind] == 0) continue;
    if (times[kind].calls == 0) return std::nullopt;
    const std::uint64_t each = times[kind].median_ns;
    sum = calls[kind] > (kMost - sum) / each ? kMost : sum + calls[kind] * each;
  }
  return sum;
}

}  // namespace fragscope::whatif
