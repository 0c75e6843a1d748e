// SPDX-License-Identifier: Apache-2.0
// Reads words and figures from a message that may have been wrapped anywhere, also inside a word or
// a number. A break is blanks, a line end, blanks; it may stand where the text has a blank, or
// nothing at all. Used by `message_reader` only.
#pragma once

#include "analyzer/model/heap_state.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace fragscope::explain {

class JoinedCursor {
 public:
  JoinedCursor(std::string_view text, std::size_t at)
      : text_(text)
      , at_(at) {}

  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }

  /// Passes `words` if they come next, letters of either case; else stays.
  bool pass(std::string_view words);
  /// Passes everything up to and including the next `words`, looking at most `within` bytes on.
  bool pass_through(std::string_view words, std::size_t within);

  /// A whole number, possibly broken in two lines.
  [[nodiscard]] std::optional<std::uint64_t> count();
  /// "4.94 GiB" as the interval that prints so, "512 bytes" exactly. "GB" and "MB" are powers of
  /// 1024 in the messages that have them. The upper end 2^64 - 1 stands for "not available".
  [[nodiscard]] std::optional<model::Bounds> size();
  /// "6.12/23.65 GiB": two figures of one unit.
  [[nodiscard]] std::optional<std::pair<model::Bounds, model::Bounds>> size_pair();
  /// Text up to a blank.
  [[nodiscard]] std::string word();

 private:
  /// Index behind a break at `at`, or `at` itself.
  [[nodiscard]] std::size_t behind_break(std::size_t at) const;
  [[nodiscard]] std::string number_text();
  [[nodiscard]] std::optional<int> unit_power();

  std::string_view text_;
  std::size_t at_;
};

}  // namespace fragscope::explain
