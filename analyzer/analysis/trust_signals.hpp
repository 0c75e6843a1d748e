// SPDX-License-Identifier: Apache-2.0
// What weakens the evidence of a recording, and what each weakness does to the numbers.
#pragma once

#include "analyzer/model/timeline.hpp"
#include "analyzer/recording/recording.hpp"

#include <cstdint>
#include <vector>

namespace fragscope::analysis {

/// Signals of one device's trace.
void add_trace_signals(const model::Timeline& timeline, std::vector<model::TrustSignal>& trust);

/// Signals of the recording as a whole.
void add_file_signals(const model::Recording& recording,
                      model::RoundingRule rule,
                      std::vector<model::TrustSignal>& trust);

}  // namespace fragscope::analysis
