// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/size_options.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <string>

namespace fragscope::policy {
namespace {

std::string without_spaces(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) kept += c;
  }
  return kept;
}

// PyTorch parses a prefix ("128.7" is 128) and clamps to the largest whole MiB.
std::optional<std::uint64_t> mebibytes(std::string_view text) {
  // stoull takes a sign and wraps: -1 is as good as unlimited, and is clamped as that.
  if (text.starts_with('-')) return kUnlimited / kMiB * kMiB;
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc::invalid_argument || end == text.data()) return std::nullopt;
  constexpr std::uint64_t kMost = kUnlimited / kMiB;
  return error == std::errc::result_out_of_range ? kMost * kMiB : std::min(count, kMost) * kMiB;
}

std::optional<double> fraction(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data() || !(value >= 0 && value <= 1)) {
    return std::nullopt;
  }
  return value;
}

void apply(std::string_view key, std::string_view value, SizeOptions& options) {
  SizeRules& rules = options.rules;
  if (key == "max_split_size_mb") {
    rules.max_split_size = mebibytes(value).value_or(rules.max_split_size);
  } else if (key == "max_non_split_rounding_mb") {
    rules.max_non_split_rounding = mebibytes(value).value_or(rules.max_non_split_rounding);
  } else if (key == "expandable_segments") {
    rules.expandable_segments = value == "True";
  } else if (key == "per_process_memory_fraction") {
    options.memory_fraction = fraction(value);
  } else if (key == "roundup_power2_divisions") {
    std::uint32_t divisions = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), divisions);
    if (parsed.ec == std::errc{} && std::has_single_bit(divisions)) {
      rules.roundup_divisions.fill(divisions);
    }
  }
}

}  // namespace

SizeOptions read_size_options(std::string_view conf) {
  SizeOptions options;
  const std::string text = without_spaces(conf);
  const auto each_pair = [&text](auto&& use) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      const std::string_view pair = std::string_view(text).substr(at, end - at);
      if (const auto colon = pair.find(':'); colon != std::string_view::npos) {
        use(pair.substr(0, colon), pair.substr(colon + 1));
      }
      at = end + 1;
    }
  };
  // The segment size is read first wherever it stands: it is the default of another option.
  each_pair([&options](std::string_view key, std::string_view value) {
    if (key != "large_segment_size_mb") return;
    options.rules.large_segment_size =
        std::max(mebibytes(value).value_or(kLargeBuffer), kMinLargeAlloc);
    options.rules.max_non_split_rounding = options.rules.large_segment_size;
  });
  each_pair(
      [&options](std::string_view key, std::string_view value) { apply(key, value, options); });
  return options;
}

}  // namespace fragscope::policy
