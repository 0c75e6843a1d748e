// SPDX-License-Identifier: Apache-2.0
// Time stamps for records: the cheapest clock that the machine has, and its place in the others.
#pragma once

#include "trace/format/header.hpp"

#include <cstdint>
#include <ctime>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace fragscope::trace {

/// Nanoseconds of one of the system's clocks.
[[nodiscard]] inline std::uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// The time stamp counter where it ticks evenly through all states of the processor, on all of
/// them; else the monotonic clock. Asks the system: for the start, not for records.
[[nodiscard]] ClockKind best_clock();

[[nodiscard]] inline std::uint64_t ticks_now(ClockKind kind) {
#if defined(__x86_64__)
  if (kind == ClockKind::kTsc) return __rdtsc();
#endif
  static_cast<void>(kind);
  return clock_ns(CLOCK_MONOTONIC);
}

[[nodiscard]] ClockAnchor anchor_now(ClockKind kind);

/// Nanoseconds since the Unix epoch at `ticks`, from the two anchors of a header. With the counter
/// and anchors less than a millisecond apart its rate is not known: the first anchor's time.
[[nodiscard]] std::uint64_t unix_ns_at(const Header& header, std::uint64_t ticks);

}  // namespace fragscope::trace
