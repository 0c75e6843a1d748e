// SPDX-License-Identifier: Apache-2.0
// Where a program may have gone by the state of memory, so that under other settings it might have
// asked for something else. A replay asks for the same all the same.
#pragma once

#include "analyzer/model/history.hpp"
#include "analyzer/whatif/program/program.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace fragscope::whatif {

/// One kind of such places. What a program was told by `mem_get_info` is in no recording.
struct Dependence {
  std::string_view
      kind;  ///< "survived-refusal": it was refused memory, and went on; "empty-cache".
  std::string_view what;  ///< For people, in the plural.
  std::uint64_t count = 0;
  model::EventIndex first_event = 0;
};

/// Those that the program has. Cost: a look at each op.
[[nodiscard]] std::vector<Dependence> dependences_of(const Program& program);

}  // namespace fragscope::whatif
