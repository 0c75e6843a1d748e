// SPDX-License-Identifier: Apache-2.0
// What a recording leaves open and the policy's own rules decide, by one run over the recorded
// decisions: whether the program or a request gave the cache back, and whether a request was
// refused within the capture of a graph.
#pragma once

#include "analyzer/whatif/program/program.hpp"

namespace fragscope::whatif {

/// Makes `kEmptyCache` of each `kRelease`, or leaves it to the request that follows; adds what was
/// assumed to the program's doubts. To be called once, before anything else is run. Where the
/// policy decides otherwise than was recorded, what comes behind is settled by a heap that is not
/// the recorded one. Cost: one run, if anything is open.
void settle(Program& program);

}  // namespace fragscope::whatif
