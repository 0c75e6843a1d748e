// SPDX-License-Identifier: Apache-2.0
// Classes of ASCII characters, whatever the locale. Bytes beyond ASCII are in none of them.
#pragma once

namespace fragscope {

[[nodiscard]] constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

[[nodiscard]] constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// What separates words, line breaks included.
[[nodiscard]] constexpr bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

[[nodiscard]] constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

}  // namespace fragscope
