// SPDX-License-Identifier: Apache-2.0
// The memo of a pickle: the values that later opcodes refer to by number. A snapshot stores several
// for each event, so an entry is one word, the kind in its top byte. Numbers, which may need all 64
// bits, have no place here; no pickle writer puts one in. Used by `PickleMachine`.
#pragma once

#include "analyzer/ingest/pickle/value.hpp"
#include "analyzer/recording/large_vector.hpp"

#include <cstdint>

namespace fragscope::ingest {

class Memo {
 public:
  [[nodiscard]] static bool takes(const Value& value) {
    return value.kind >= ValueKind::kString || value.kind == ValueKind::kNone;
  }

  /// False if nothing was stored under `index`.
  [[nodiscard]] bool load(std::size_t index, Value& value) const {
    if (index >= entries_.size() || entries_[index] == kNotSet) return false;
    value = {static_cast<ValueKind>(entries_[index] >> kPayloadBits),
             entries_[index] & kPayloadMask};
    return true;
  }

  /// Stores under the next number.
  void add(const Value& value) { entries_.push_back(packed(value)); }

  /// Stores under any number; the ones left out stay empty.
  void put(std::size_t index, const Value& value) {
    if (index >= entries_.size()) entries_.resize(index + 1, kNotSet);
    entries_[index] = packed(value);
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t held_bytes() const { return entries_.size() * sizeof(std::uint64_t); }

 private:
  static constexpr std::uint64_t kNotSet = ~std::uint64_t{0};
  static constexpr std::uint64_t kPayloadBits = 56;
  static constexpr std::uint64_t kPayloadMask = (std::uint64_t{1} << kPayloadBits) - 1;

  [[nodiscard]] static std::uint64_t packed(const Value& value) {
    return (static_cast<std::uint64_t>(value.kind) << kPayloadBits) | value.payload;
  }

  model::LargeVector<std::uint64_t> entries_;
};

}  // namespace fragscope::ingest
