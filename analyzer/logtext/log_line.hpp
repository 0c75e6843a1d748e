// SPDX-License-Identifier: Apache-2.0
// A line of a log as the readers see it: without terminal codes, its prefix understood. Loggers,
// Ray, torchrun, containers and people put many things in front of a message; what tells writers
// apart is kept, the rest is skipped. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fragscope::logtext {

struct LogLine {
  std::uint64_t number = 0;             ///< From 1.
  std::string_view text;                ///< Cleaned; prefixes are still there.
  std::string_view message;             ///< The part of `text` behind the prefixes.
  std::string_view process;             ///< Who wrote it, as the prefix says; empty if it does not.
  std::optional<std::int64_t> time_ms;  ///< Time stamp; without a date, since midnight.
};

/// `raw` without ANSI codes (also written out, as \x1b[31m or \u001b[0m), with the escapes of JSON
/// and Rust strings undone, and other control characters as blanks. Line breaks stay.
[[nodiscard]] std::string clean_text(std::string_view raw);

/// Takes a cleaned line apart. The views point into `text`.
[[nodiscard]] LogLine read_line(std::string_view text, std::uint64_t number);

}  // namespace fragscope::logtext
