// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fragscope::report {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kBetween = 2;

std::string_view code_of(Tone tone) {
  switch (tone) {
    case Tone::kTitle:
      return "1";
    case Tone::kGood:
      return "32";
    case Tone::kBad:
      return "1;31";
    case Tone::kDoubt:
      return "33";
    case Tone::kFaint:
      return "2";
    case Tone::kPlain:
      break;
  }
  return "";
}

}  // namespace

std::string Paint::operator()(Tone tone, std::string_view text) const {
  if (!colour_ || tone == Tone::kPlain) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code_of(tone), text);
}

std::string Table::text(const Paint& paint) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      // The last cell of a row is not padded, so a long one must not widen its column.
      if (i + 1 < row.size() || row[i].right) widths[i] = std::max(widths[i], row[i].text.size());
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(kIndent, ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Cell& cell = row[i];
      const std::size_t pad = cell.text.size() < widths[i] ? widths[i] - cell.text.size() : 0;
      const bool is_last = i + 1 == row.size();
      if (cell.right) line.append(pad, ' ');
      line += paint(cell.tone, cell.text);
      if (!cell.right && !is_last) line.append(pad, ' ');
      if (!is_last) line.append(kBetween, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::string line;
  const auto flush = [&] {
    if (!line.empty()) out += std::string(indent, ' ') + line + "\n";
    line.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) flush();
    if (!line.empty()) line += ' ';
    line += word;
    at = end + 1;
  }
  flush();
  return out;
}

}  // namespace fragscope::report
