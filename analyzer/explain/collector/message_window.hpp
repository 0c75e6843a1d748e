// SPDX-License-Identifier: Apache-2.0
// The stretch of a log in which one message may lie: the line with a phrase, the line before, since
// a break may divide the first words, and the lines that follow, each without what loggers and
// launchers put in front of it.
#pragma once

#include "analyzer/logtext/log_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::explain {

struct MessageWindow {
  struct Line {
    std::size_t start = 0;     ///< In `text`.
    std::uint64_t offset = 0;  ///< Of the line in the log.
    std::uint64_t number = 0;
  };

  std::string text;  ///< Cleaned lines with line breaks between them.
  std::vector<Line> lines;
  std::size_t hit_start = 0;  ///< The line with the phrase in `text`, and
  std::size_t hit_end = 0;    ///< its end.
  std::string process;        ///< Who wrote that line; empty if it does not say.
  std::string time;           ///< Its time stamp as printed; empty if it has none.
  bool has_prefix = false;    ///< Whether something that can be removed stands in front of it.
};

/// Which of the following lines are taken for the same writer's. Lines that name another writer
/// never are.
enum class Writer : std::uint8_t {
  kSameOrUnnamed,  ///< A terminal breaks lines without repeating their prefix.
  kSame,           ///< A logger repeats it; a line without one is somebody else's.
};

/// How the line with the phrase begins.
enum class HitPrefix : std::uint8_t { kKept, kRemoved };

/// Reads at most forty lines and some six thousand bytes behind the hit: no message is longer.
[[nodiscard]] MessageWindow window_of(const logtext::LineHit& hit, Writer writer, HitPrefix prefix);

}  // namespace fragscope::explain
