// SPDX-License-Identifier: Apache-2.0
#include "analyzer/logtext/clean_text.hpp"

#include "trace/ascii.hpp"

#include <algorithm>
#include <array>

namespace fragscope::logtext {
namespace {

/// By byte: whether it is taken as it is, whatever follows.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  plain.fill(true);
  for (std::size_t control = 0; control < 32; ++control)
    plain[control] = control == '\n';
  plain[127] = false;
  plain['\\'] = false;
  return plain;
}();

bool is_plain(char c) {
  return kPlain[static_cast<unsigned char>(c)];
}

/// Length of what introduces a terminal code at `text`: the escape byte, or its spelling.
std::size_t escape_length(std::string_view text) {
  static constexpr std::array<std::string_view, 7> kSpellings = {
      "\x1b", "\\x1b", "\\x1B", "\\u001b", "\\u001B", "\\033", "\\e"};
  for (const std::string_view spelling : kSpellings) {
    if (text.starts_with(spelling)) return spelling.size();
  }
  return 0;
}

/// Length of a whole terminal code ("ESC [ 1 ; 31 m") at `text`, 0 if there is none.
std::size_t code_length(std::string_view text) {
  const auto is_parameter = [](char c) { return is_digit(c) || c == ';' || c == '?'; };
  std::size_t at = escape_length(text);
  if (at == 0) return 0;
  if (at >= text.size() || text[at] != '[') return text[0] == '\x1b' ? at : 0;
  ++at;
  while (at < text.size() && is_parameter(text[at]))
    ++at;
  return at < text.size() && is_letter(text[at]) ? at + 1 : at;
}

/// What a two-character escape stands for, 0 if it is none.
char unescaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
    case 'r':
      return ' ';
    case '"':
    case '\'':
      return c;
    default:
      return '\0';
  }
}

}  // namespace

std::string clean_text(std::string_view raw) {
  std::string text;
  text.reserve(raw.size());
  while (!raw.empty()) {
    const auto plain_end = std::ranges::find_if_not(raw, is_plain);
    const auto plain = static_cast<std::size_t>(plain_end - raw.begin());
    text.append(raw.substr(0, plain));
    raw.remove_prefix(plain);
    if (raw.empty()) break;
    if (const std::size_t code = code_length(raw); code > 0) {
      raw.remove_prefix(code);
      continue;
    }
    const char escaped = raw[0] == '\\' && raw.size() > 1 ? unescaped(raw[1]) : '\0';
    text += escaped != '\0' ? escaped : raw[0] == '\\' ? '\\' : ' ';
    raw.remove_prefix(escaped != '\0' ? 2 : 1);
  }
  return text;
}

}  // namespace fragscope::logtext
