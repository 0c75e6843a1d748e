// SPDX-License-Identifier: Apache-2.0
// The question asked of every group and every size at once: what could have been served, and what
// would it have taken? Each scan runs on the CPU, which defines the answer, or on a GPU, as the
// caller chooses. Used by the analyzer; what a group is (one home at one event) is its business.
// algorithm/README.md has the definitions.
#pragma once

#include "kernels/algorithm/group_runs.hpp"
#include "kernels/algorithm/servability.hpp"
#include "kernels/algorithm/window.hpp"
#include "kernels/block_table.hpp"
#include "kernels/device_choice.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace fragscope::kernels {

struct ScanOptions {
  Device device = Device::kAuto;
  unsigned threads = 0;  ///< Of the CPU; 0: all cores.
};

struct Runs {
  std::vector<GroupRuns> groups;
  /// `kRunClasses` counts for each group, or empty if not asked for.
  std::vector<std::uint32_t> histogram;
  DeviceChoice ran;
};

/// The runs of each group of a checked table; with `with_histogram` also how many there are of each
/// size class.
/// Fails: no GPU where one was asked for; CUDA's own errors, by their name.
[[nodiscard]] Result<Runs> find_runs(const BlockTable& table,
                                     bool with_histogram,
                                     const ScanOptions& options = {});

/// Which requests could have been served.
struct Servability {
  std::vector<std::uint64_t> sizes;  ///< As asked.
  std::uint64_t groups = 0;
  std::vector<std::uint64_t> bits;            ///< As in `FillServability::served`.
  std::vector<std::uint32_t> first_failings;  ///< As in `FillServability::first_failing`.
  DeviceChoice ran;

  /// Whether the group serves `sizes[size]`.
  [[nodiscard]] bool served(Sense sense, std::uint32_t size, std::uint64_t group) const {
    return size < first_failing(sense, group);
  }
  /// The index of the smallest size that the group does not serve; `sizes.size()` if it serves all.
  [[nodiscard]] std::uint32_t first_failing(Sense sense, std::uint64_t group) const {
    return first_failings[static_cast<std::uint64_t>(sense) * groups + group];
  }
  /// One bit for each group, 64 in a word, of those that serve `sizes[size]`; the rest of the last
  /// word is 0.
  [[nodiscard]] std::span<const std::uint64_t> bit_map(Sense sense, std::uint32_t size) const {
    const std::uint64_t words = (groups + kWordGroups - 1) / kWordGroups;
    return std::span(bits).subspan(
        (static_cast<std::uint64_t>(sense) * sizes.size() + size) * words, words);
  }
};

/// Which of `sizes` each group serves, and in which sense. `spare_bytes`, one for each group or
/// none at all, is what the driver could have given there. Fails: sizes that do not rise; spare
/// bytes of another number than groups; and as `find_runs`.
[[nodiscard]] Result<Servability> find_servability(std::span<const GroupRuns> runs,
                                                   std::span<const std::uint64_t> spare_bytes,
                                                   std::span<const std::uint64_t> sizes,
                                                   const ScanOptions& options = {});

struct Windows {
  std::vector<Window> segments;
  DeviceChoice ran;
};

/// For each segment the cheapest window for a request of `size_bytes`, at least 1. Table and
/// segments are checked ones (`check_table`, `check_segments`). Fails: a request of 0 bytes; and as
/// `find_runs`.
[[nodiscard]] Result<Windows> find_windows(const BlockTable& table,
                                           std::span<const std::uint64_t> segment_begins,
                                           std::uint64_t size_bytes,
                                           const ScanOptions& options = {});

}  // namespace fragscope::kernels
