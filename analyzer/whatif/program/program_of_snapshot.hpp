// SPDX-License-Identifier: Apache-2.0
// The program of a PyTorch snapshot with history. It begins with the heap that undoing the history
// leads to; what a snapshot does not tell (who used a block on other streams, who emptied the
// cache) is assumed, and said.
#pragma once

#include "analyzer/model/rounding_rule.hpp"
#include "analyzer/model/timeline.hpp"
#include "analyzer/recording/recording.hpp"
#include "analyzer/whatif/program/program.hpp"
#include "trace/result.hpp"

namespace fragscope::whatif {

/// `rule` is the one that `timeline` was made with. Fails: no history; a writer that does not round
/// as PyTorch does.
[[nodiscard]] Result<Program> program_of_snapshot(const model::Recording& recording,
                                                  const model::Timeline& timeline,
                                                  model::RoundingRule rule);

}  // namespace fragscope::whatif
