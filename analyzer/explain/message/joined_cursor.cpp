// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/message/joined_cursor.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace fragscope::explain {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

/// The bytes that print as this number of a unit of 2^power bytes.
std::optional<model::Bounds> bounds_of(const std::string& number, int power) {
  double value = 0;
  const char* end = number.data() + number.size();
  const auto parsed = std::from_chars(number.data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end || number.empty() || !std::isfinite(value)) {
    return std::nullopt;
  }
  const auto point = number.find('.');
  const auto decimals = point == std::string::npos ? 0 : number.size() - point - 1;
  // Bytes are exact; anything else was rounded to the decimals it shows.
  const double half = power == 0 ? 0 : 0.5 * std::pow(10.0, -static_cast<double>(decimals));
  double low = std::ldexp(std::max(value - half, 0.0), power);
  double high = std::ldexp(value + half, power);
  if (!(high < 9.2e18)) return model::Bounds{0, policy::kUnlimited};
  // With more decimals than the unit has bytes there may be no whole number of them in between.
  const bool is_between = std::ceil(low) > std::floor(high);
  low = is_between ? std::floor(low) : std::ceil(low);
  high = is_between ? std::ceil(high) : std::floor(high);
  return model::Bounds{static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high)};
}

}  // namespace

std::size_t JoinedCursor::behind_break(std::size_t at) const {
  std::size_t end = at;
  bool has_line_end = false;
  while (end < text_.size() && is_blank(text_[end]))
    has_line_end |= text_[end++] == '\n';
  return has_line_end ? end : at;
}

bool JoinedCursor::pass(std::string_view words) {
  std::size_t at = at_;
  for (const char expected : words) {
    if (expected == ' ') {
      if (at >= text_.size() || !is_blank(text_[at])) return false;
      while (at < text_.size() && is_blank(text_[at]))
        ++at;
      continue;
    }
    if (at < text_.size() && text_[at] != expected) at = behind_break(at);
    if (at >= text_.size() || lower(text_[at]) != lower(expected)) return false;
    ++at;
  }
  at_ = at;
  return true;
}

bool JoinedCursor::pass_through(std::string_view words, std::size_t within) {
  const std::size_t start = at_;
  const std::size_t last = std::min(text_.size(), at_ + within);
  for (; at_ < last; ++at_) {
    if (lower(text_[at_]) == lower(words.front()) && pass(words)) return true;
  }
  at_ = start;
  return false;
}

// Digits and points; a break is part of it only if digits or a point go on behind it.
std::string JoinedCursor::number_text() {
  constexpr std::size_t kLongest = 40;
  std::string number;
  std::size_t at = at_;
  while (number.size() < kLongest) {
    const std::size_t next = at < text_.size() && is_blank(text_[at]) ? behind_break(at) : at;
    if (next >= text_.size() || !(is_digit(text_[next]) || text_[next] == '.')) break;
    // A full stop that ends a sentence is no decimal point.
    if (text_[next] == '.') {
      const std::size_t behind = behind_break(next + 1);
      if (behind >= text_.size() || !is_digit(text_[behind])) break;
    }
    number += text_[next];
    at = next + 1;
  }
  at_ = at;
  return number;
}

std::optional<std::uint64_t> JoinedCursor::count() {
  const std::size_t start = at_;
  const std::string number = number_text();
  std::uint64_t value = 0;
  const char* end = number.data() + number.size();
  const auto parsed = std::from_chars(number.data(), end, value);
  if (parsed.ec == std::errc{} && parsed.ptr == end && !number.empty()) return value;
  at_ = start;
  return std::nullopt;
}

std::optional<int> JoinedCursor::unit_power() {
  struct Unit {
    std::string_view name;
    int power;
  };
  static constexpr std::array<Unit, 9> kUnits = {{{"bytes", 0},
                                                  {"KiB", 10},
                                                  {"MiB", 20},
                                                  {"GiB", 30},
                                                  {"TiB", 40},
                                                  {"KB", 10},
                                                  {"MB", 20},
                                                  {"GB", 30},
                                                  {"B", 0}}};
  static_cast<void>(pass(" "));
  for (const Unit& unit : kUnits) {
    if (pass(unit.name)) return unit.power;
  }
  return std::nullopt;
}

std::optional<model::Bounds> JoinedCursor::size() {
  const std::size_t start = at_;
  const std::string number = number_text();
  const auto power = unit_power();
  const auto bounds = power ? bounds_of(number, *power) : std::nullopt;
  if (!bounds) at_ = start;
  return bounds;
}

std::optional<std::pair<model::Bounds, model::Bounds>> JoinedCursor::size_pair() {
  const std::size_t start = at_;
  const std::string first = number_text();
  const bool has_slash = pass("/");
  const std::string second = number_text();
  const auto power = unit_power();
  if (has_slash && power) {
    const auto left = bounds_of(first, *power);
    const auto right = bounds_of(second, *power);
    if (left && right) return std::pair(*left, *right);
  }
  at_ = start;
  return std::nullopt;
}

std::string JoinedCursor::word() {
  std::string word;
  constexpr std::size_t kLongest = 60;
  while (at_ < text_.size() && !is_blank(text_[at_]) && word.size() < kLongest)
    word += text_[at_++];
  return word;
}

}  // namespace fragscope::explain
