// SPDX-License-Identifier: Apache-2.0
// What a group's free runs add up to. Used by the scans of both forms and by their callers.
#pragma once

#include "kernels/primitives/host_device.hpp"

#include <cstdint>

namespace fragscope::kernels {

/// The runs of one group. A run is what lies free without a gap inside one segment.
struct GroupRuns {
  std::uint64_t free_bytes = 0;
  std::uint64_t largest_run_bytes = 0;
  std::uint64_t free_segment_bytes = 0;  ///< In segments that are free from end to end.
  std::uint64_t runs = 0;

  /// Takes in a run, or nothing if it has no bytes.
  FRAGSCOPE_HOST_DEVICE constexpr void add_run(std::uint64_t bytes, bool whole_segment) {
    free_bytes += bytes;
    largest_run_bytes = bytes > largest_run_bytes ? bytes : largest_run_bytes;
    free_segment_bytes += whole_segment ? bytes : 0;
    runs += bytes != 0 ? 1 : 0;
  }

  friend bool operator==(const GroupRuns&, const GroupRuns&) = default;
};

/// Adds up disjoint parts of one group. Associative and commutative.
struct AddRuns {
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr GroupRuns operator()(const GroupRuns& a,
                                                                     const GroupRuns& b) const {
    return {a.free_bytes + b.free_bytes,
            a.largest_run_bytes > b.largest_run_bytes ? a.largest_run_bytes : b.largest_run_bytes,
            a.free_segment_bytes + b.free_segment_bytes,
            a.runs + b.runs};
  }
};

/// Runs of [2^c, 2^(c + 1)) bytes are of size class c; a run has fewer than 2^62 bytes.
inline constexpr std::uint32_t kRunClasses = 62;

}  // namespace fragscope::kernels
