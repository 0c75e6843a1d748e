// SPDX-License-Identifier: Apache-2.0
// Whether memory grows over repeats of the same work, and what grows: live allocations, by stack,
// or only what the allocator keeps. The rules are in docs/growth.md. The result is plain data;
// `analyzer/report/course` prints it.
#pragma once

#include "analyzer/course/growth/repeats.hpp"
#include "analyzer/course/growth/trend.hpp"
#include "analyzer/model/history.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace fragscope::course {

enum class GrowthKind : std::uint8_t {
  kNoRepeats,
  kTooFew,
  kPlateau,
  kGrowth,       ///< Of live allocations.
  kCacheGrowth,  ///< Of what is held from the driver, while live allocations do not grow.
  kFalling,
  kUndecided,
};
[[nodiscard]] std::string_view to_string(GrowthKind kind);

/// A layer over the repeats that are whole, in bytes.
struct LayerCourse {
  std::vector<std::uint64_t> values;
  Judged judged;
};

/// Live bytes of one stack at the low points of repeats.
struct StackGrowth {
  model::StackId stack = model::kNoStack;
  std::uint64_t first_bytes = 0;  ///< Behind the warm-up.
  std::uint64_t last_bytes = 0;
  Slope slope;  ///< Bytes for each repeat.
};

struct Growth {
  Repeats repeats;
  std::vector<std::size_t> whole;  ///< Of `repeats.all`.
  LayerCourse low;                 ///< The least live in each repeat: what outlives the work.
  LayerCourse peak;                ///< The most live.
  LayerCourse reserved;            ///< The most held from the driver.
  GrowthKind kind = GrowthKind::kNoRepeats;
  std::vector<StackGrowth> stacks;  ///< That grow, the steepest first; with kGrowth only.
  std::uint64_t growing_stacks = 0;
};

inline constexpr std::size_t kKeptGrowingStacks = 100;

[[nodiscard]] Growth find_growth(const model::History& history, const RepeatChoice& choice);

/// One layer in three runs: A, B, A again.
struct Control {
  std::string_view layer;
  std::uint64_t first_bytes = 0;
  std::uint64_t other_bytes = 0;
  std::uint64_t again_bytes = 0;
  std::uint64_t noise_bytes = 0;  ///< Smaller differences say nothing.
  bool comes_back = false;        ///< The second A is where the first was.
  bool differs = false;           ///< B is not, by more than the two A.
};

/// By the medians behind the warm-up. Empty unless all three have repeats to judge.
[[nodiscard]] std::vector<Control> compare_with_control(std::span<const Growth> runs);

}  // namespace fragscope::course
