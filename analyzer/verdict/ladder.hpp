// SPDX-License-Identifier: Apache-2.0
// The verdict. For a request, one rule after the other is relaxed, each rung keeping all earlier
// relaxations; the first rung on which the request fits names the verdict. Every rung is kept as
// data with its bytes, so that a reader can check it. Unknown facts are intervals: a rung that they
// could decide either way is unknown, and says from which value on it would be yes.
// The rungs and their formulas: docs/verdicts.md.
#pragma once

#include "analyzer/verdict/question.hpp"
#include "analyzer/verdict/supply.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::verdict {

enum class VerdictKind : std::uint8_t {
  kServable,
  kNotExplained,
  kReleasable,
  kLimit,
  kStranded,
  kFragmented,
  kScattered,
  kExternal,
  kCapacity,
  kImpossible,
  kUnknown,
};
[[nodiscard]] std::string_view to_string(VerdictKind kind);

enum class Certainty : std::uint8_t { kProven, kPossible };
[[nodiscard]] std::string_view to_string(Certainty certainty);

enum class Fits : std::uint8_t { kNo, kYes, kUnknown };

/// A fact that would decide a rung, and from which value on the rung would be yes.
struct MissingFact {
  std::string fact;  ///< "device_free", "device_total", "limit", "pool_use_count", "block_size"
  std::uint64_t threshold_bytes = 0;
  friend bool operator==(const MissingFact&, const MissingFact&) = default;
};

struct Rung {
  int number = 0;
  std::string_view what;
  std::optional<Bounds> bytes;  ///< What is on offer here; empty if not even bounded.
  std::uint64_t need_bytes = 0;
  Fits fits = Fits::kNo;
  std::vector<MissingFact> missing;  ///< Only if `fits` is unknown.
  std::string note;
};

/// What else is true beside the verdict.
struct Also {
  bool limit = false;              ///< The limit would have refused it too.
  bool rounding = false;           ///< Rounding loss alone would have covered what was short.
  bool capacity_pressure = false;  ///< Live blocks fill 90 % or more of what there is.
};

struct Verdict {
  VerdictKind kind = VerdictKind::kUnknown;
  Certainty certainty = Certainty::kPossible;
  std::vector<std::string_view> stranded_by;
  bool barriers_are_joint = false;  ///< One hole behind all of them, not a hole behind each.
  std::optional<std::uint64_t> short_by_bytes;
  bool short_by_is_most = false;   ///< The driver kept some back: short by this or less.
  bool short_by_is_least = false;  ///< A figure behind it is a bound: short by this or more.
  Also also;
  std::vector<MissingFact> missing;
  std::string text;  ///< One or two sentences with the numbers in them.
};

struct Judgement {
  Verdict verdict;
  std::array<Rung, 9> ladder;
};

[[nodiscard]] Judgement judge(const Question& question,
                              const Supply& supply,
                              std::optional<std::uint64_t> requested_bytes,
                              const DeviceFacts& facts,
                              const policy::SizeRules& rules);

/// With this much or less beyond the need, the driver may refuse although memory is free.
inline constexpr std::uint64_t kDriverReserveBytes = 32 * policy::kMiB;

}  // namespace fragscope::verdict
