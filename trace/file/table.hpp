// SPDX-License-Identifier: Apache-2.0
// The table of a trace, read back: what the ids in records stand for. Every byte is taken as
// hostile; an entry that breaks the format ends the table, and everything in front of it counts.
#pragma once

#include "trace/format/table.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::trace {

class Table {
 public:
  Table() = default;

  /// Adds the bytes that follow those it has.
  void extend(std::span<const std::byte> bytes);

  // Each gives nothing (an empty text or span, zeros) for id 0 and for one that is not there. What
  // they refer to stays until the table is extended.
  [[nodiscard]] std::string_view text(std::uint64_t id) const;
  [[nodiscard]] TableFrame frame(std::uint32_t id) const;
  /// Ids of frames, the innermost first.
  [[nodiscard]] std::vector<std::uint32_t> stack(std::uint32_t id) const;
  [[nodiscard]] std::uint64_t stream(std::uint32_t id) const;
  [[nodiscard]] TablePool pool(std::uint32_t id) const;
  [[nodiscard]] TableFact fact(std::uint32_t id) const;

  /// How many there are of a kind; ids go from 1 to this.
  [[nodiscard]] std::size_t count(TableKind kind) const;
  /// Where the format is broken; empty: nowhere.
  [[nodiscard]] const std::string& damage() const { return damage_; }

 private:
  struct Place {
    std::size_t offset = 0;
    std::uint32_t bytes = 0;
  };
  static constexpr std::size_t kKinds = 7;

  [[nodiscard]] std::span<const std::byte> entry(TableKind kind, std::uint64_t id) const;
  template <class Entry>
  [[nodiscard]] Entry entry_as(TableKind kind, std::uint64_t id) const;
  void parse();

  std::vector<std::byte> bytes_;
  std::size_t parsed_ = 0;
  std::vector<Place> places_[kKinds];
  std::string damage_;
};

}  // namespace fragscope::trace
