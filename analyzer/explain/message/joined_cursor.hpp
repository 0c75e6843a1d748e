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

/// Stands for a size that no 64 bits hold. One less than "not available".
inline constexpr std::uint64_t kBeyondBytes = policy::kUnlimited - 1;

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
  /// 1024 in the messages that have them. "1,024.00" and "1,95" are read, "1,024" is not: it may be
  /// either. The upper end 2^64 - 1 stands for "not available", which is printed as 2^64 bytes.
  [[nodiscard]] std::optional<model::Bounds> size();
  /// Passes what stands for a size but cannot be read as one, "nan GiB" or "-1.00 GiB", and returns
  /// it; else stays and returns nothing.
  [[nodiscard]] std::string unreadable_size();
  /// "6.12/23.65 GiB": two figures of one unit.
  [[nodiscard]] std::optional<std::pair<model::Bounds, model::Bounds>> size_pair();
  /// Text up to a blank.
  [[nodiscard]] std::string word();

 private:
  /// Index behind a break at `at`, or `at` itself.
  [[nodiscard]] std::size_t behind_break(std::size_t at) const;
  [[nodiscard]] std::string number_text(bool with_commas);
  [[nodiscard]] std::optional<int> unit_power();

  std::string_view text_;
  std::size_t at_;
};

}  // namespace fragscope::explain
