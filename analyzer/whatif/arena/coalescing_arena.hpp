// SPDX-License-Identifier: Apache-2.0
// An arena whose freed blocks merge with the holes beside them at once. Which hole a request gets
// is its `Holes`' to say: the best fit, or two-level segregated fit.
#pragma once

#include "analyzer/whatif/arena/arena.hpp"

#include <absl/container/btree_map.h>

#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace fragscope::whatif {

/// Cost: logarithmic in the number of holes.
class BestFit {
 public:
  void insert(std::uint64_t offset, std::uint64_t size) { holes_.emplace(size, offset); }
  void erase(std::uint64_t offset, std::uint64_t size) { holes_.erase({size, offset}); }
  /// The offset of a hole for so many bytes.
  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t largest() const;

 private:
  std::set<std::pair<std::uint64_t, std::uint64_t>> holes_;  // size, offset
};

/// Cost: logarithmic in the number of classes that have a hole.
class SegregatedFit {
 public:
  void insert(std::uint64_t offset, std::uint64_t size);
  void erase(std::uint64_t offset, std::uint64_t size);
  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t largest() const;

 private:
  using Offsets = std::list<std::uint64_t>;  // the newest first
  std::map<std::uint64_t, Offsets> classes_;
  std::map<std::uint64_t, std::pair<std::uint64_t, Offsets::iterator>> holes_;  // size and place
};

template <class Holes>
class CoalescingArena final : public Arena {
 public:
  std::optional<std::uint64_t> allocate(std::uint64_t bytes, std::uint64_t capacity) override {
    const std::uint64_t size = block_bytes(bytes);
    const std::optional<std::uint64_t> hole = holes_.find(size);
    return hole ? cut(ranges_.find(*hole), size, capacity) : grow(size, capacity);
  }

  void free(std::uint64_t offset) override {
    auto range = ranges_.find(offset);
    give_back(range->second.size);
    range->second.is_free = true;
    const auto next = std::next(range);
    if (next != ranges_.end() && next->second.is_free) {
      holes_.erase(next->first, next->second.size);
      range->second.size += next->second.size;
      ranges_.erase(next);
      range = ranges_.find(offset);
    }
    if (range != ranges_.begin() && std::prev(range)->second.is_free) {
      const auto before = std::prev(range);
      holes_.erase(before->first, before->second.size);
      before->second.size += range->second.size;
      range = std::prev(ranges_.erase(range));
    }
    holes_.insert(range->first, range->second.size);
  }

  [[nodiscard]] std::uint64_t largest_hole() const override { return holes_.largest(); }

 private:
  struct Range {
    std::uint64_t size = 0;
    bool is_free = false;
  };
  using Ranges = absl::btree_map<std::uint64_t, Range>;  // by offset; without gaps up to end()

  /// A capacity that shrank may leave a hole behind it.
  std::optional<std::uint64_t> cut(typename Ranges::iterator hole,
                                   std::uint64_t size,
                                   std::uint64_t capacity) {
    const std::uint64_t offset = hole->first;
    if (offset + size > capacity) return std::nullopt;
    const std::uint64_t rest = hole->second.size - size;
    holes_.erase(offset, hole->second.size);
    hole->second = {size, false};
    if (rest > 0) {
      ranges_.emplace(offset + size, Range{rest, true});
      holes_.insert(offset + size, rest);
    }
    take(offset, size);
    return offset;
  }

  /// At the end, with the hole that may lie there.
  std::optional<std::uint64_t> grow(std::uint64_t size, std::uint64_t capacity) {
    std::uint64_t offset = end();
    const bool has_hole = !ranges_.empty() && ranges_.rbegin()->second.is_free;
    if (has_hole) offset = ranges_.rbegin()->first;
    if (offset + size > capacity) return std::nullopt;
    if (has_hole) {
      holes_.erase(offset, ranges_.rbegin()->second.size);
      ranges_.erase(std::prev(ranges_.end()));
    }
    ranges_.emplace(offset, Range{size, false});
    take(offset, size);
    return offset;
  }

  Ranges ranges_;
  Holes holes_;
};

}  // namespace fragscope::whatif
