// SPDX-License-Identifier: Apache-2.0
// Counts with their word, as people write them. Pure.
#pragma once

#include "analyzer/recording/byte_size.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace fragscope::model {

/// "3 requests", "1 request". The words may go on to a verb: "block was lost", "blocks were lost".
[[nodiscard]] inline std::string plural(std::uint64_t count,
                                        std::string_view one,
                                        std::string_view many) {
  std::string text = show_count(count);
  text += ' ';
  text += count == 1 ? one : many;
  return text;
}

}  // namespace fragscope::model
