// SPDX-License-Identifier: Apache-2.0
// How long the driver takes for what a program makes of it: measured in the recording, call by
// call, and from that estimated for a variant. Nothing is guessed: of a kind of call that the
// recording has not measured nobody knows, and then of no variant that makes one.
#pragma once

#include "analyzer/whatif/program/program.hpp"
#include "analyzer/whatif/variant.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace fragscope::whatif {

/// What the driver took for one kind of call in the recording. All zero: none was measured.
struct CallTimes {
  std::uint64_t calls = 0;  ///< That were measured.
  /// Of these, in nanoseconds; of an even number the mean of the two in the middle, rounded down.
  std::uint64_t median_ns = 0;
  std::uint64_t total_ns = 0;
};

/// By `DeviceCall::Kind`.
using DriverTimes = std::array<CallTimes, kDeviceCallKinds>;

/// Cost: that of the recorded calls.
[[nodiscard]] DriverTimes driver_times(const Program& program);

/// Nanoseconds that the calls of this outcome would take: of each kind as many medians as there are
/// calls; all bits where that is more. None: a kind that occurs was not measured, or the variant is
/// a plain allocator, whose growths are none of these calls.
[[nodiscard]] std::optional<std::uint64_t> estimated_ns(const DriverTimes& times,
                                                        const Variant& variant,
                                                        const Outcome& outcome);

}  // namespace fragscope::whatif
