// SPDX-License-Identifier: Apache-2.0
#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace fragscope::model {
namespace {

constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

tl::unexpected<Error> not_a_size(std::string_view text, std::string_view hint) {
  return failure(ErrorCode::kUsage, fmt::format("'{}' is no size; {}", text.substr(0, 60), hint));
}

}  // namespace

std::string show_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.996 would print as 1024.00; the next unit says it better.
  while (value >= 1023.995 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string show_count(std::uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kExpected =
      "expected a number and a unit, as 4.94GiB, 512MiB or 20971520";
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0)
    return not_a_size(text, kExpected);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ')
    unit.remove_prefix(1);
  if (unit.size() == 2 && std::toupper(static_cast<unsigned char>(unit[1])) == 'B') {
    return not_a_size(text, "write KiB, MiB or GiB (powers of 1024)");
  }
  std::size_t power = 0;
  if (!unit.empty() && unit != "B") {
    constexpr std::string_view kPrefixes = "KMGT";
    const auto at =
        kPrefixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
    if (at == std::string_view::npos || (unit.size() > 1 && unit.substr(1) != "iB")) {
      return not_a_size(text, kExpected);
    }
    power = at + 1;
  }
  const double bytes = std::ldexp(number, static_cast<int>(10 * power));
  if (!(bytes < 9.2e18)) return not_a_size(text, "it is beyond every device");
  if (power == 0) {
    if (bytes != std::floor(bytes)) return not_a_size(text, "bytes come whole");
    // A plain integer is exact beyond what a double holds.
    std::uint64_t exact = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), exact);
    if (parsed.ec == std::errc{} && parsed.ptr == end) return exact;
  }
  return static_cast<std::uint64_t>(std::llround(bytes));
}

}  // namespace fragscope::model
