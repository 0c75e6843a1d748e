// SPDX-License-Identifier: Apache-2.0
#include "devices/visible_devices.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace fragscope::devices {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

struct Named {
  std::optional<std::size_t> place;
  std::string reason;  // where there is none
};

/// A number as strtoul reads one: what follows its digits is not looked at.
Named by_number(std::string_view entry, std::span<const Candidate> candidates) {
  const std::string_view digits = entry.starts_with('+') ? entry.substr(1) : entry;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end == digits.data()) return {std::nullopt, "names no device"};
  std::size_t gpus = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].can_be_numbered) continue;
    if (gpus++ == number) return {i, ""};
  }
  return {std::nullopt,
          "there are " + std::to_string(gpus) + " GPUs, and the first has the number 0"};
}

/// A UUID, or as much of its beginning as no other has.
Named by_uuid(std::string_view entry, std::span<const Candidate> candidates) {
  Named named;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].uuid.starts_with(entry)) continue;
    if (named.place) return {std::nullopt, "several devices begin so"};
    named.place = i;
  }
  if (!named.place) named.reason = "no device has this UUID";
  return named;
}

}  // namespace

VisibleDevices read_visible_devices(std::optional<std::string_view> variable,
                                    std::span<const Candidate> candidates) {
  VisibleDevices visible;
  if (!variable) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].can_be_numbered) visible.shown.push_back(i);
    }
    return visible;
  }
  std::string_view rest = *variable;
  const auto stop = [&visible](std::string_view entry, std::string reason) {
    visible.stopped_at = std::string(entry);
    visible.reason = std::move(reason);
    return visible;
  };
  while (!trimmed(*variable).empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view entry = trimmed(rest.substr(0, comma));
    const bool is_uuid = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    const Named named = is_uuid ? by_uuid(entry, candidates) : by_number(entry, candidates);
    if (!named.place) return stop(entry, named.reason);
    if (std::find(visible.shown.begin(), visible.shown.end(), *named.place) !=
        visible.shown.end()) {
      visible.shown.clear();
      return stop(entry, "a device that is named twice hides all");
    }
    visible.shown.push_back(*named.place);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return visible;
}

}  // namespace fragscope::devices
