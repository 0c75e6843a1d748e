// SPDX-License-Identifier: Apache-2.0
#include "trace/ring/clock.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

namespace fragscope::trace {

ClockKind best_clock() {
#if defined(__x86_64__)
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("flags")) continue;
    const bool is_even = line.find(" constant_tsc") != std::string::npos &&
                         line.find(" nonstop_tsc") != std::string::npos;
    return is_even ? ClockKind::kTsc : ClockKind::kMonotonicNs;
  }
#endif
  return ClockKind::kMonotonicNs;
}

ClockAnchor anchor_now(ClockKind kind) {
  ClockAnchor anchor;
  anchor.ticks = ticks_now(kind);
  anchor.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
  anchor.unix_ns = clock_ns(CLOCK_REALTIME);
  return anchor;
}

std::uint64_t unix_ns_at(const Header& header, std::uint64_t ticks) {
  constexpr double kLeast = 1e6;
  const ClockAnchor& first = header.first_anchor;
  const ClockAnchor& last = header.last_anchor;
  // Only differences as doubles, which hold a hundred days to the nanosecond, but times since 1970
  // to 256 ns. Anchors and ticks of a damaged trace may be anything.
  const auto distance = [](std::uint64_t from, std::uint64_t to) {
    return to >= from ? static_cast<double>(to - from) : -static_cast<double>(from - to);
  };
  double rate = 1;  // nanoseconds of a tick
  if (header.clock == ClockKind::kTsc) {
    const double elapsed = distance(first.monotonic_ns, last.monotonic_ns);
    const double ticked = distance(first.ticks, last.ticks);
    if (elapsed < kLeast || ticked <= 0) return first.unix_ns;
    rate = elapsed / ticked;
  }
  const double offset = distance(first.ticks, ticks) * rate;
  constexpr double kMost = 18'446'744'073'709'549'568.0;  // the largest double below 2^64
  const auto size = static_cast<std::uint64_t>(std::min(std::abs(offset) + 0.5, kMost));
  if (offset < 0) return first.unix_ns - std::min(size, first.unix_ns);
  return first.unix_ns + std::min(size, ~first.unix_ns);
}

}  // namespace fragscope::trace
