// SPDX-License-Identifier: Apache-2.0
// Lists that hold nothing but references into the memo, known again by their bytes. A stack of
// frames is such a list, and a snapshot has the same few hundred of them a million times; one that
// was read before need not be read again. Sound as long as no memo entry changes: whoever changes
// one calls `forget`. Used by `PickleMachine`.
#pragma once

#include "analyzer/ingest/pickle/opcodes.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace fragscope::ingest {

/// The opcodes of a list's items, APPENDS not included.
using ReferenceBytes = std::span<const std::uint8_t>;

/// The references from `at` to the next APPENDS; empty if there is none, or something else between.
/// At least one byte follows `at`.
[[nodiscard]] inline ReferenceBytes references_at(const std::uint8_t* at, const std::uint8_t* end) {
  const auto is = [](const std::uint8_t* place, Opcode opcode) {
    return static_cast<Opcode>(*place) == opcode;
  };
  const std::uint8_t* behind = at;
  while (end - behind > 5 && (is(behind, Opcode::kLongBinget) || is(behind, Opcode::kBinget))) {
    behind += is(behind, Opcode::kLongBinget) ? 5 : 2;
  }
  return is(behind, Opcode::kAppends) ? ReferenceBytes(at, behind) : ReferenceBytes();
}

/// The builder's handles of such lists. The bytes of each must outlive the table.
class ReferenceLists {
 public:
  /// A list that was read before.
  struct Place {
    const std::uint8_t* bytes = nullptr;
    std::uint32_t length = 0;  ///< 0: an empty place.
    std::uint64_t list = 0;

    [[nodiscard]] bool has(ReferenceBytes references) const {
      return length == references.size() && std::memcmp(bytes, references.data(), length) == 0;
    }
  };

  /// The place where such a list is, or may be put. Two lists that share one only displace each
  /// other; a few bytes of both ends and the middle are enough to tell most apart. At least eight
  /// bytes lie between the references' start and `file_end`.
  [[nodiscard]] Place& place_of(ReferenceBytes references, const std::uint8_t* file_end) {
    const std::uint8_t* begin = references.data();
    const std::uint8_t* end = begin + references.size();
    const auto length = static_cast<std::uint64_t>(references.size());
    std::uint64_t hash = length * 0x9e3779b97f4a7c15ULL;
    for (const std::uint8_t* at :
         {begin, begin + length / 2, end - std::min<std::size_t>(length, 8)}) {
      std::uint64_t word = 0;
      std::memcpy(&word, std::min(at, file_end - sizeof word), sizeof word);
      hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
      hash ^= hash >> 32;
    }
    return places_[hash % kPlaces];
  }

  static void put(Place& place, ReferenceBytes references, std::uint64_t list) {
    place = {references.data(), static_cast<std::uint32_t>(references.size()), list};
  }

  void forget() { std::ranges::fill(places_, Place{}); }

 private:
  static constexpr std::size_t kPlaces = 4096;

  std::vector<Place> places_ = std::vector<Place>(kPlaces);
};

}  // namespace fragscope::ingest
