// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/runs/places.hpp"

#include <algorithm>
#include <iterator>

namespace fragscope::servability {

void Places::add(Range place) {
  if (place.begin >= place.end) return;
  places_[place.begin] = place.end;
  for (auto& [bytes, begins] : large_enough_)
    if (place.size_bytes() >= bytes) begins.insert(place.begin);
}

void Places::remove(Range place) {
  places_.erase(place.begin);
  for (auto& [bytes, begins] : large_enough_)
    if (place.size_bytes() >= bytes) begins.erase(place.begin);
}

void Places::begin_at(std::uint64_t address) {
  if (begin_ && *begin_ <= address) return;
  const std::uint64_t end = begin_.value_or(kEndless);
  begin_ = address;
  leave({address, end});
}

void Places::use(Range range) {
  if (range.begin >= range.end) return;
  auto at = places_.upper_bound(range.begin);
  if (at != places_.begin() && std::prev(at)->second > range.begin) --at;
  while (at != places_.end() && at->first < range.end) {
    const Range place{at->first, at->second};
    remove(place);
    add({place.begin, std::min(place.end, range.begin)});
    add({std::max(place.begin, range.end), place.end});
    at = places_.lower_bound(place.end);
  }
}

void Places::leave(Range range) {
  if (range.begin >= range.end) return;
  auto at = places_.upper_bound(range.begin);
  if (at != places_.begin() && std::prev(at)->second >= range.begin) --at;
  while (at != places_.end() && at->first <= range.end) {
    const Range place{at->first, at->second};
    range = {std::min(range.begin, place.begin), std::max(range.end, place.end)};
    remove(place);
    at = places_.lower_bound(place.end);
  }
  add(range);
}

std::optional<Range> Places::first_of(std::uint64_t bytes, std::uint64_t address) const {
  const auto known = large_enough_.find(bytes);
  if (known == large_enough_.end() && large_enough_.size() == kKeptSizes) large_enough_.clear();
  Begins& begins = large_enough_[bytes];
  if (begins.empty()) {
    for (const auto& [begin, end] : places_)
      if (end - begin >= bytes) begins.insert(begin);
  }
  const auto found = begins.lower_bound(address);
  if (found == begins.end()) return std::nullopt;
  return Range{*found, places_.find(*found)->second};
}

}  // namespace fragscope::servability
