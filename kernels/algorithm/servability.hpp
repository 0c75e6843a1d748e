// SPDX-License-Identifier: Apache-2.0
// From a group's runs to the sizes that it could have served. Used by both forms of the servability
// scan, which differ only in who calls `FillServability` for which index.
#pragma once

#include "kernels/algorithm/group_runs.hpp"

#include <cstdint>

namespace fragscope::kernels {

/// What a request may count on, each with all that those before it have.
enum class Sense : std::uint8_t {
  kHoles,      ///< One run of free blocks.
  kReleased,   ///< Or what the driver has, and what free segments given back to it add.
  kCompacted,  ///< Or all free bytes together, blocks moved, and what the driver has.
};
inline constexpr std::uint32_t kSenses = 3;

/// The sum, or all there is if that is more than a number holds.
[[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr std::uint64_t saturated_sum(std::uint64_t a,
                                                                          std::uint64_t b) {
  return a + b < a ? ~std::uint64_t{0} : a + b;
}

/// The largest request that a group serves in a sense. `spare_bytes` is what the driver can give.
[[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr std::uint64_t largest_served(
    const GroupRuns& runs, std::uint64_t spare_bytes, Sense sense) {
  if (sense == Sense::kHoles) return runs.largest_run_bytes;
  const std::uint64_t other = sense == Sense::kReleased ? runs.free_segment_bytes : runs.free_bytes;
  const std::uint64_t given = saturated_sum(other, spare_bytes);
  return given > runs.largest_run_bytes ? given : runs.largest_run_bytes;
}

/// Groups of one word of a bit map.
inline constexpr std::uint64_t kWordGroups = 64;

/// Fills the bits of 64 groups in one sense, for all sizes.
struct FillServability {
  const GroupRuns* runs = nullptr;
  const std::uint64_t* spare_bytes = nullptr;  ///< One for each group, or null for none.
  std::uint64_t groups = 0;
  const std::uint64_t* sizes = nullptr;  ///< Rising.
  std::uint32_t size_count = 0;
  std::uint64_t* served = nullptr;         ///< [sense][size][word], each row `words()` long.
  std::uint32_t* first_failing = nullptr;  ///< [sense][group]: index of a size, or `size_count`.

  [[nodiscard]] FRAGSCOPE_HOST_DEVICE std::uint64_t words() const {
    return (groups + kWordGroups - 1) / kWordGroups;
  }

  /// `index` below `kSenses * words()`. A group serves the sizes up to its first failing one: so
  /// that is marked in the bits themselves, and what was marked then ends there in one walk up the
  /// sizes.
  FRAGSCOPE_HOST_DEVICE void operator()(std::uint64_t index) const {
    const std::uint64_t sense = index / words();
    const std::uint64_t word = index % words();
    std::uint64_t* const column = served + sense * size_count * words() + word;
    for (std::uint32_t size = 0; size < size_count; ++size)
      column[size * words()] = 0;
    std::uint64_t serving = 0;
    for (std::uint64_t bit = 0; bit < kWordGroups; ++bit) {
      const std::uint64_t group = word * kWordGroups + bit;
      if (group >= groups) break;
      const std::uint64_t spare = spare_bytes == nullptr ? 0 : spare_bytes[group];
      const std::uint32_t failing =
          sizes_up_to(largest_served(runs[group], spare, static_cast<Sense>(sense)));
      first_failing[sense * groups + group] = failing;
      serving |= std::uint64_t{1} << bit;
      if (failing < size_count) column[failing * words()] |= std::uint64_t{1} << bit;
    }
    for (std::uint32_t size = 0; size < size_count; ++size) {
      serving &= ~column[size * words()];
      column[size * words()] = serving;
    }
  }

 private:
  /// How many of the sizes are `most` or less.
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE std::uint32_t sizes_up_to(std::uint64_t most) const {
    std::uint32_t low = 0;
    std::uint32_t high = size_count;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (sizes[middle] <= most) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

}  // namespace fragscope::kernels
