// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/message/joined_cursor.hpp"

#include "trace/ascii.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace fragscope::explain {
namespace {

/// Whether these are the digits of a whole number in groups of three: "1,024", "17.179.869".
bool is_grouped(std::string_view number, char separator) {
  std::size_t group = 0;
  bool is_first = true;
  for (const char c : number) {
    if (c != separator) {
      ++group;
      continue;
    }
    if (is_first ? group == 0 || group > 3 : group != 3) return false;
    is_first = false;
    group = 0;
  }
  return !is_first && group == 3;
}

/// A number with a decimal point and nothing between its digits; none where what is printed may be
/// read in two ways ("1,024") or in none ("1,02,4").
std::optional<std::string> plain_number(const std::string& printed) {
  const auto comma = printed.find(',');
  if (comma == std::string::npos) return printed;
  const auto point = printed.find('.');
  const bool is_continental = point != std::string::npos && point < comma;  // "1.024,00"
  std::string number = printed;
  if (is_continental || (point == std::string::npos && !is_grouped(printed, ','))) {
    if (printed.find(',', comma + 1) != std::string::npos) return std::nullopt;
    if (is_continental && !is_grouped(std::string_view(printed).substr(0, comma), '.')) {
      return std::nullopt;
    }
    std::erase(number, '.');
    std::ranges::replace(number, ',', '.');
    return number;
  }
  const std::string_view whole = std::string_view(printed).substr(0, point);
  if (!is_grouped(whole, ',')) return std::nullopt;
  const bool is_ambiguous = point == std::string::npos && std::ranges::count(printed, ',') == 1;
  if (is_ambiguous && !printed.starts_with('0')) return std::nullopt;
  if (is_ambiguous) {
    number[comma] = '.';
  } else {
    std::erase(number, ',');
  }
  return number;
}

/// The bytes that print as this number of a unit of 2^power bytes.
std::optional<model::Bounds> bounds_of(const std::string& printed, int power) {
  const auto number = plain_number(printed);
  if (!number || number->empty()) return std::nullopt;
  double value = 0;
  const char* end = number->data() + number->size();
  const auto parsed = std::from_chars(number->data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end || !std::isfinite(value)) return std::nullopt;
  const auto point = number->find('.');
  const auto decimals = point == std::string::npos ? 0 : number->size() - point - 1;
  // Bytes are exact; anything else was rounded to the decimals it shows.
  const double half = power == 0 ? 0 : 0.5 * std::pow(10.0, -static_cast<double>(decimals));
  // 2^64 - 1 bytes, as it prints, and the figures next to it.
  constexpr double kTop = 0x1p64;
  const double step = std::ldexp(3 * half, power);
  if (std::abs(std::ldexp(value, power) - kTop) <= step)
    return model::Bounds{0, policy::kUnlimited};
  double low = std::ldexp(std::max(value - half, 0.0), power);
  double high = std::ldexp(value + half, power);
  // With more decimals than the unit has bytes there may be no whole number of them in between.
  const bool is_between = std::ceil(low) > std::floor(high);
  low = is_between ? std::floor(low) : std::ceil(low);
  high = is_between ? std::ceil(high) : std::floor(high);
  const auto whole = [](double bytes) {
    return bytes < kTop ? static_cast<std::uint64_t>(bytes) : kBeyondBytes;
  };
  return model::Bounds{whole(low), whole(high)};
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

// Digits, points and commas; a break is part of it only if digits or a point go on behind it.
std::string JoinedCursor::number_text(bool with_commas) {
  constexpr std::size_t kLongest = 40;
  std::string number;
  std::size_t at = at_;
  while (number.size() < kLongest) {
    const std::size_t next = at < text_.size() && is_blank(text_[at]) ? behind_break(at) : at;
    const bool is_comma = with_commas && !number.empty() && next + 1 < text_.size() &&
                          text_[next] == ',' && is_digit(text_[next + 1]);
    if (is_comma) {
      number += ',';
      at = next + 1;
      continue;
    }
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
  const std::string number = number_text(/*with_commas=*/false);
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
  static constexpr std::array<Unit, 11> kUnits = {{{"bytes", 0},
                                                   {"PiB", 50},
                                                   {"EiB", 60},
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
    JoinedCursor probe = *this;
    if (!probe.pass(unit.name)) continue;
    // "12 blocks" are no bytes.
    const bool is_word = unit.name == "B" && !probe.at_end() && is_letter(text_[probe.at()]);
    if (is_word) continue;
    *this = probe;
    return unit.power;
  }
  return std::nullopt;
}

std::optional<model::Bounds> JoinedCursor::size() {
  const std::size_t start = at_;
  const std::string number = number_text(/*with_commas=*/true);
  const auto power = unit_power();
  const auto bounds = power ? bounds_of(number, *power) : std::nullopt;
  if (!bounds) at_ = start;
  return bounds;
}

std::optional<std::pair<model::Bounds, model::Bounds>> JoinedCursor::size_pair() {
  const std::size_t start = at_;
  const std::string first = number_text(/*with_commas=*/true);
  const bool has_slash = pass("/");
  const std::string second = number_text(/*with_commas=*/true);
  const auto power = unit_power();
  if (has_slash && power) {
    const auto left = bounds_of(first, *power);
    const auto right = bounds_of(second, *power);
    if (left && right) return std::pair(*left, *right);
  }
  at_ = start;
  return std::nullopt;
}

std::string JoinedCursor::unreadable_size() {
  JoinedCursor probe = *this;
  const std::string printed = probe.word();
  const bool is_figure = std::ranges::any_of(printed, is_digit) || printed.ends_with("nan") ||
                         printed.ends_with("inf") || printed.ends_with("NaN");
  const std::size_t unit = probe.at();
  if (!is_figure || !probe.unit_power()) return {};
  std::string text = printed + ' ' + std::string(text_.substr(unit, probe.at() - unit).substr(1));
  *this = probe;
  return text;
}

std::string JoinedCursor::word() {
  std::string word;
  constexpr std::size_t kLongest = 60;
  while (at_ < text_.size() && !is_blank(text_[at_]) && word.size() < kLongest)
    word += text_[at_++];
  return word;
}

}  // namespace fragscope::explain
