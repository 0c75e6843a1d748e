// SPDX-License-Identifier: Apache-2.0
// The program of a trace of ours: of the last stretch whose records are all there.
#pragma once

#include "analyzer/model/trace/trace_history.hpp"
#include "analyzer/recording/recording.hpp"
#include "analyzer/whatif/program/program.hpp"
#include "trace/result.hpp"

#include <cstdint>

namespace fragscope::whatif {

/// `recording` is what `TraceHistory::open` filled; of `at_most` records, as far as keyframes allow
/// it (`TraceHistory::last_stretch`). Fails: more records than an op can number.
[[nodiscard]] Result<Program> program_of_trace(
    const model::TraceHistory& history,
    const model::Recording& recording,
    std::uint64_t at_most = model::TraceHistory::kAllRecords);

}  // namespace fragscope::whatif
