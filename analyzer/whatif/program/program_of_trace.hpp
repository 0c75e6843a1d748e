// SPDX-License-Identifier: Apache-2.0
// The program of a trace of ours: of the last stretch whose records are all there.
#pragma once

#include "analyzer/model/trace/trace_history.hpp"
#include "analyzer/recording/recording.hpp"
#include "analyzer/whatif/program/program.hpp"
#include "trace/result.hpp"

namespace fragscope::whatif {

/// `recording` is what `TraceHistory::open` filled. Fails: more records than an op can number.
[[nodiscard]] Result<Program> program_of_trace(const model::TraceHistory& history,
                                               const model::Recording& recording);

}  // namespace fragscope::whatif
