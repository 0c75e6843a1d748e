// SPDX-License-Identifier: Apache-2.0
// Addresses as small ordered numbers. A trace names few distinct addresses, again and again; each
// gets a `Place`, numbered in address order, so that everything kept per address is a plain array
// and "the next occupied address" is a search in a bit set. Used by `Timeline` only.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace fragscope::model {

/// The rank of an address among all addresses of one device's trace.
using Place = std::uint32_t;
inline constexpr Place kNoPlace = ~Place{0};

/// Collects addresses, then ranks them. Cost: one hash look-up an address, one sort of the
/// distinct.
class PlaceIndex {
 public:
  /// A provisional number for `address`; `rank` turns it into a place once all are known.
  [[nodiscard]] std::uint32_t add(std::uint64_t address) {
    const auto next = static_cast<std::uint32_t>(addresses_.size());
    const auto [found, added] = numbers_.try_emplace(address, next);
    if (added) addresses_.push_back(address);
    return found->second;
  }

  /// Ends collecting: numbers become ranks. Returns provisional number -> place.
  [[nodiscard]] std::vector<Place> rank() {
    std::vector<std::uint32_t> order(addresses_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [this](std::uint32_t number) { return addresses_[number]; });
    std::vector<Place> places(addresses_.size());
    std::vector<std::uint64_t> sorted(addresses_.size());
    for (std::uint32_t place = 0; place < order.size(); ++place) {
      places[order[place]] = place;
      sorted[place] = addresses_[order[place]];
    }
    addresses_ = std::move(sorted);
    numbers_ = {};
    return places;
  }

  [[nodiscard]] std::size_t size() const { return addresses_.size(); }
  /// After `rank`.
  [[nodiscard]] std::uint64_t address(Place place) const { return addresses_[place]; }

 private:
  std::vector<std::uint64_t> addresses_;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> numbers_;
};

/// A set of places with "next" and "previous" in a handful of steps: 64-way bit tree.
class PlaceSet {
 public:
  explicit PlaceSet(std::size_t size) {
    do {
      size = (size + 63) / 64;
      levels_.emplace_back(size);
    } while (size > 1);
  }

  void insert(Place place) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[place >> 6];
      const bool was_empty = word == 0;
      word |= std::uint64_t{1} << (place & 63);
      if (!was_empty) return;
      place >>= 6;
    }
  }
  void erase(Place place) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[place >> 6];
      word &= ~(std::uint64_t{1} << (place & 63));
      if (word != 0) return;
      place >>= 6;
    }
  }

  /// The first member at or above `place`, `kNoPlace` if there is none.
  [[nodiscard]] Place next(Place place) const {
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      if ((place >> 6) >= levels_[level].size()) return kNoPlace;
      const std::uint64_t word = levels_[level][place >> 6] >> (place & 63);
      if (word != 0)
        return descend_first(level, place + static_cast<Place>(std::countr_zero(word)));
      place = (place >> 6) + 1;
    }
    return kNoPlace;
  }

  /// The last member at or below `place`, `kNoPlace` if there is none.
  [[nodiscard]] Place previous(Place place) const {
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      const std::uint64_t word = levels_[level][place >> 6] << (63 - (place & 63));
      if (word != 0) return descend_last(level, place - static_cast<Place>(std::countl_zero(word)));
      if ((place >> 6) == 0) return kNoPlace;
      place = (place >> 6) - 1;
    }
    return kNoPlace;
  }

 private:
  [[nodiscard]] Place descend_first(std::size_t level, Place place) const {
    while (level-- > 0) {
      place = (place << 6) + static_cast<Place>(std::countr_zero(levels_[level][place]));
    }
    return place;
  }
  [[nodiscard]] Place descend_last(std::size_t level, Place place) const {
    while (level-- > 0) {
      place = (place << 6) + 63 - static_cast<Place>(std::countl_zero(levels_[level][place]));
    }
    return place;
  }

  std::vector<std::vector<std::uint64_t>> levels_;
};

}  // namespace fragscope::model
