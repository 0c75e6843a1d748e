// SPDX-License-Identifier: Apache-2.0
// Streams a log of any size through a phrase scanner and hands over the lines that hold a phrase,
// with what follows them. Memory is bounded whatever the log and its lines are like; a plain file
// or pipe is never held whole. Not thread-safe.
#pragma once

#include "analyzer/ingest/input.hpp"
#include "analyzer/logtext/phrase_scanner.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace fragscope::logtext {

/// A line that holds a phrase. The views are valid during the call only.
struct LineHit {
  std::uint64_t number = 0;  ///< From 1.
  std::uint64_t offset = 0;  ///< Of `line` in the log, in bytes of the text as it is read.
  std::uint32_t groups = 0;  ///< Bit n: a phrase of the scanner's n-th group is in it.
  std::string_view
      line;  ///< Raw, without its line end. Of an overlong line the part around the phrase.
  std::string_view before;  ///< Raw, the end of what precedes the line.
  std::string_view rest;    ///< Raw, what follows `line`, from its line break on; at least 16 KiB
                            ///< unless the log ends.
};

struct LogTotals {
  std::uint64_t bytes = 0;
  std::uint64_t lines = 0;    ///< Also a last one without a line break.
  std::string_view encoding;  ///< "UTF-16"; empty where the bytes were taken as they are.
};

/// Reads `path` ("-" is standard input; see `open_log` for what is unfolded) and calls `use` for
/// each such line, in order. An overlong line with phrases far apart is handed over in several
/// parts. Fails: unreadable, a directory, damaged compression. An empty log is no failure.
[[nodiscard]] Result<LogTotals> read_log(const std::string& path,
                                         const PhraseScanner& scanner,
                                         const std::function<void(const LineHit&)>& use,
                                         const ingest::ProgressFn& progress = {});

/// The same for a text in memory.
LogTotals read_text(std::string_view text,
                    const PhraseScanner& scanner,
                    const std::function<void(const LineHit&)>& use);

}  // namespace fragscope::logtext
