// SPDX-License-Identifier: Apache-2.0
// `timeline`: the largest request that would have been served over one device's history, for one
// request when the answer turned and what stood in the way then, and for sizes around it what would
// have served them. Plain data;
// `analyzer/report/servability` prints it.
#pragma once

#include "analyzer/analysis/analysis.hpp"
#include "analyzer/model/history.hpp"
#include "analyzer/servability/size_map.hpp"
#include "analyzer/servability/timeline.hpp"
#include "analyzer/verdict/ladder.hpp"
#include "trace/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fragscope::analysis {

/// What stands in the way of the request behind an event.
struct JudgedTurn {
  model::EventIndex event = 0;
  verdict::VerdictKind kind = verdict::VerdictKind::kUnknown;
};

struct TimelineOptions {
  std::size_t column_count = 60;     ///< At most; the events are cut into as many parts.
  std::vector<std::uint64_t> sizes;  ///< To ask about at each column; empty: around the request's.
  kernels::Device scan_on = kernels::Device::kAuto;
};

struct TimelineAnalysis {
  servability::Timeline timeline;
  /// Behind the last event of each column; none: no request to ask about, or no event.
  std::optional<servability::SizeMap> size_map;
  /// Whose size is asked about: the last failure, or the request named; none: neither is there.
  std::optional<Failure> asked;
  std::vector<JudgedTurn> judged;  ///< The turns to no that the timeline lists.

  /// Null: not judged.
  [[nodiscard]] const JudgedTurn* judgement_at(model::EventIndex event) const;
};

/// A named request is asked with what the device had at the last failure, or at the end. Fails:
/// what `options` ask for is not in the recording, sizes are not of the request's class, or no GPU
/// can be used that was asked for.
[[nodiscard]] Result<TimelineAnalysis> analyze_timeline(const model::Recording& recording,
                                                        const model::History& history,
                                                        Options options,
                                                        const TimelineOptions& wanted);

}  // namespace fragscope::analysis
