// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/fact.hpp"

#include "trace/ascii.hpp"

#include <charconv>
#include <cmath>

namespace fragscope::stages {
namespace {

bool is_number_part(char c) {
  return is_digit(c) || c == '.' || c == ',';
}

/// What stands behind the anchor, without the blanks and brackets in front of it.
std::optional<std::string_view> behind(std::string_view anchor, std::string_view text) {
  const std::size_t at = text.find(anchor);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + anchor.size());
  while (!text.empty() && std::string_view(" \t\"'([").find(text.front()) != std::string_view::npos)
    text.remove_prefix(1);
  return text;
}

/// The number that `text` begins with, as printed. Longer ones than any size are no numbers.
std::string_view leading_number(std::string_view text) {
  constexpr std::size_t kLongest = 24;
  std::size_t end = text.starts_with('-') ? 1 : 0;
  const std::size_t first = end;
  while (end < text.size() && is_number_part(text[end]))
    ++end;
  while (end > first && !is_digit(text[end - 1]))
    --end;
  return end == first || end > kLongest || !is_digit(text[first]) ? std::string_view()
                                                                  : text.substr(0, end);
}

/// The unit behind a number, one blank or none between them; "GB" as "GiB" where the engine means
/// it.
std::string unit_of(std::string_view text, const Phrase& phrase) {
  if (text.starts_with(' ')) text.remove_prefix(1);
  std::size_t end = 0;
  while (end < text.size() && is_letter(text[end]))
    ++end;
  const std::string_view unit = text.substr(0, end);
  constexpr std::string_view kKnown[] = {
      "B", "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB", "s", "secs", "seconds", "tokens"};
  for (const std::string_view known : kKnown) {
    if (unit != known) continue;
    const bool bytes = unit.size() == 2 && unit[1] == 'B';
    if (bytes && traits(phrase.engine).binary_units) return std::string{unit[0]} + "iB";
    return std::string(unit);
  }
  return std::string(phrase.fact.unit);
}

/// The number that ends `text`, with a blank behind it at most.
std::string_view trailing_number(std::string_view text) {
  while (text.ends_with(' '))
    text.remove_suffix(1);
  std::size_t begin = text.size();
  while (begin > 0 && is_number_part(text[begin - 1]))
    --begin;
  return leading_number(text.substr(begin));
}

/// The last word in front of the anchor, if it looks like a device: CUDA0, ROCm1, CPU_Mapped.
std::string_view device_before(std::string_view anchor, std::string_view text) {
  std::string_view head = text.substr(0, text.find(anchor));
  while (head.ends_with(' '))
    head.remove_suffix(1);
  const std::size_t blank = head.rfind(' ');
  if (blank != std::string_view::npos) head.remove_prefix(blank + 1);
  const bool device = !head.empty() && head.size() <= 24 && head[0] >= 'A' && head[0] <= 'Z';
  return device ? head : std::string_view();
}

std::string_view anchor_of(const Phrase& phrase) {
  return phrase.fact.anchor.empty() ? phrase.text : phrase.fact.anchor;
}

}  // namespace

std::optional<Fact> read_fact(const Phrase& phrase, std::string_view text) {
  const FactRule& rule = phrase.fact;
  if (rule.label.empty()) return std::nullopt;
  const std::string_view anchor = anchor_of(phrase);
  if (rule.place == FactPlace::kBefore) {
    const std::string_view number = trailing_number(text.substr(0, text.find(anchor)));
    if (number.empty()) return std::nullopt;
    return Fact{std::string(rule.label), std::string(number) + ' ' + std::string(rule.unit)};
  }
  const auto tail = behind(anchor, text);
  if (!tail) return std::nullopt;
  const std::string_view number = leading_number(*tail);
  if (number.empty()) return std::nullopt;
  Fact fact{std::string(rule.label), std::string(number)};
  const std::string unit = unit_of(tail->substr(number.size()), phrase);
  if (!unit.empty()) fact.value += ' ' + unit;
  if (rule.place == FactPlace::kDevice) {
    const std::string_view device = device_before(anchor, text);
    if (device.empty()) return std::nullopt;
    fact.label = std::string(device) + ' ' + fact.label;
  }
  return fact;
}

std::optional<std::string> read_version(const Phrase& phrase, std::string_view text) {
  constexpr std::size_t kLongest = 40;
  const auto tail = behind(anchor_of(phrase), text);
  if (!tail) return std::nullopt;
  const std::string_view version = tail->substr(0, tail->find_first_of(" ,)]\"'"));
  if (version.empty() || version.size() > kLongest) return std::nullopt;
  return std::string(version);
}

std::optional<double> read_seconds(std::string_view anchor, std::string_view text) {
  const auto tail = behind(anchor, text);
  if (!tail) return std::nullopt;
  double seconds = 0;
  const auto [end, error] = std::from_chars(tail->data(), tail->data() + tail->size(), seconds);
  const bool sane = error == std::errc{} && std::isfinite(seconds) && seconds >= 0 && seconds < 1e9;
  return sane ? std::optional(seconds) : std::nullopt;
}

std::optional<std::uint64_t> read_count(const Phrase& phrase, std::string_view text) {
  const auto tail = behind(anchor_of(phrase), text);
  if (!tail) return std::nullopt;
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(tail->data(), tail->data() + tail->size(), count);
  return error == std::errc{} ? std::optional(count) : std::nullopt;
}

}  // namespace fragscope::stages
