// SPDX-License-Identifier: Apache-2.0
// `timeline`: the largest request that would have been served over one device's history, and for
// one request when the answer turned and what stood in the way then. Plain data;
// `analyzer/report/servability` prints it.
#pragma once

#include "analyzer/analysis/analysis.hpp"
#include "analyzer/model/history.hpp"
#include "analyzer/servability/timeline.hpp"
#include "analyzer/verdict/ladder.hpp"
#include "trace/result.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace fragscope::analysis {

/// What stands in the way of the request behind an event.
struct JudgedTurn {
  model::EventIndex event = 0;
  verdict::VerdictKind kind = verdict::VerdictKind::kUnknown;
};

struct TimelineAnalysis {
  servability::Timeline timeline;
  /// Whose size is asked about: the last failure, or the request named; none: neither is there.
  std::optional<Failure> asked;
  std::vector<JudgedTurn> judged;  ///< The turns to no that the timeline lists.

  /// Null: not judged.
  [[nodiscard]] const JudgedTurn* judgement_at(model::EventIndex event) const;
};

/// A named request is asked with what the device had at the last failure, or at the end. Fails:
/// what `options` ask for is not in the recording.
[[nodiscard]] Result<TimelineAnalysis> analyze_timeline(const model::Recording& recording,
                                                        const model::History& history,
                                                        Options options,
                                                        std::size_t column_count);

}  // namespace fragscope::analysis
