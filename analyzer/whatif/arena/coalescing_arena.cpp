// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/arena/coalescing_arena.hpp"

#include <algorithm>
#include <bit>

namespace fragscope::whatif {
namespace {

// Of the second level: 32 classes for each power of two.
constexpr std::uint64_t kClassesOfAPower = 32;

/// The width of the classes that sizes like this one lie in.
std::uint64_t class_width(std::uint64_t size) {
  return std::max<std::uint64_t>(std::bit_floor(size) / kClassesOfAPower, 1);
}

/// The least size of the class that a hole belongs to.
std::uint64_t class_of(std::uint64_t size) {
  return size / class_width(size) * class_width(size);
}

}  // namespace

std::optional<std::uint64_t> BestFit::find(std::uint64_t bytes) const {
  const auto hole = holes_.lower_bound({bytes, 0});
  return hole == holes_.end() ? std::nullopt : std::optional(hole->second);
}

std::uint64_t BestFit::largest() const {
  return holes_.empty() ? 0 : holes_.rbegin()->first;
}

void SegregatedFit::insert(std::uint64_t offset, std::uint64_t size) {
  Offsets& offsets = classes_[class_of(size)];
  offsets.push_front(offset);
  holes_.emplace(offset, std::pair(size, offsets.begin()));
}

void SegregatedFit::erase(std::uint64_t offset, std::uint64_t size) {
  const auto offsets = classes_.find(class_of(size));
  const auto hole = holes_.find(offset);
  offsets->second.erase(hole->second.second);
  if (offsets->second.empty()) classes_.erase(offsets);
  holes_.erase(hole);
}

// Of a class that a request lies within, not every hole is large enough: the next one is taken.
std::optional<std::uint64_t> SegregatedFit::find(std::uint64_t bytes) const {
  const auto offsets = classes_.lower_bound(class_of(bytes + class_width(bytes) - 1));
  return offsets == classes_.end() ? std::nullopt : std::optional(offsets->second.front());
}

std::uint64_t SegregatedFit::largest() const {
  if (classes_.empty()) return 0;
  std::uint64_t largest = 0;
  for (const std::uint64_t offset : classes_.rbegin()->second)
    largest = std::max(largest, holes_.at(offset).first);
  return largest;
}

}  // namespace fragscope::whatif
