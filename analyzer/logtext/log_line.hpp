// SPDX-License-Identifier: Apache-2.0
// A line of a log with its prefix understood. Loggers, Ray, torchrun, containers and people put
// many things in front of a message; what tells writers apart and the time are kept, the rest is
// skipped. Pure.
#pragma once

#include "analyzer/logtext/time_stamp.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace fragscope::logtext {

struct LogLine {
  std::uint64_t number = 0;       ///< From 1.
  std::string_view text;          ///< As `clean_text` left it; prefixes are still there.
  std::string_view message;       ///< The part of `text` behind the prefixes.
  std::string_view process;       ///< Who wrote it, as the prefix says; empty if it does not.
  std::optional<TimeStamp> time;  ///< The first one in the prefix,
  std::string_view time_text;     ///< and as it stands there.
};

/// Takes a cleaned line apart. The views point into `text`.
[[nodiscard]] LogLine read_line(std::string_view text, std::uint64_t number);

}  // namespace fragscope::logtext
