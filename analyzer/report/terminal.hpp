// SPDX-License-Identifier: Apache-2.0
// The small part of a terminal that the text reports need: colour if it is wanted, and columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::report {

enum class Tone : std::uint8_t { kPlain, kTitle, kGood, kBad, kDoubt, kFaint };

/// Wraps text in a colour, or leaves it as it is.
class Paint {
 public:
  explicit Paint(bool colour)
      : colour_(colour) {}
  [[nodiscard]] std::string operator()(Tone tone, std::string_view text) const;

 private:
  bool colour_;
};

/// One cell; numbers stand right, words left.
struct Cell {
  std::string text;
  bool right = false;
  Tone tone = Tone::kPlain;
};

[[nodiscard]] inline Cell left(std::string text, Tone tone = Tone::kPlain) {
  return {std::move(text), false, tone};
}
[[nodiscard]] inline Cell right(std::string text, Tone tone = Tone::kPlain) {
  return {std::move(text), true, tone};
}

/// Columns that running text may use.
inline constexpr std::size_t kTextWidth = 100;

/// Rows of cells, aligned when printed. A row may have fewer cells than others.
class Table {
 public:
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// Each row on its own line, indented; the last cell of a row is not padded.
  [[nodiscard]] std::string text(const Paint& paint) const;

 private:
  std::vector<std::vector<Cell>> rows_;
};

/// Words broken into lines of at most `width` columns, each indented.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace fragscope::report
