// SPDX-License-Identifier: Apache-2.0
// What would help, only where arithmetic on the recorded numbers shows it, each with the numbers it
// was shown by. What only a replay could show is not said here.
#pragma once

#include "analyzer/verdict/evidence.hpp"
#include "analyzer/verdict/ladder.hpp"

#include <optional>
#include <string>
#include <vector>

namespace fragscope::verdict {

struct Advice {
  std::string text;
  std::string shown_by;
};

[[nodiscard]] std::vector<Advice> find_advice(const Question& question,
                                              const Supply& supply,
                                              const DeviceFacts& facts,
                                              const Judgement& judgement,
                                              const std::optional<Pins>& pins);

}  // namespace fragscope::verdict
