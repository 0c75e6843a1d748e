// SPDX-License-Identifier: Apache-2.0
// Reads a ring that another process may be writing, or that one left behind. Every byte is taken as
// hostile: numbers are copied before they are checked, and nothing read from the memory decides
// where to read but within its bounds.
#pragma once

#include "trace/format/header.hpp"
#include "trace/format/record.hpp"
#include "trace/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fragscope::trace {

/// A copy of the header whose layout was checked against the memory's size.
[[nodiscard]] Result<Header> read_header(std::span<const std::byte> memory);
/// The same where `memory` is only the beginning of something of `total_bytes`.
[[nodiscard]] Result<Header> read_header(std::span<const std::byte> memory,
                                         std::uint64_t total_bytes);

/// What became of the records that a reader wanted.
struct ReadCounts {
  std::uint64_t records = 0;      ///< Read.
  std::uint64_t overwritten = 0;  ///< The writer was faster.
  std::uint64_t torn = 0;         ///< Begun and never finished; at most one, and only at the end.
  std::uint64_t damaged = 0;      ///< Slots that hold neither.
};

class RingReader {
 public:
  /// Starts with the oldest record that is left. The memory outlives this.
  [[nodiscard]] static Result<RingReader> open(std::span<const std::byte> memory);

  /// The next finished record, in the order of writing; none if there is no more for now.
  [[nodiscard]] std::optional<Record> next();
  /// Once the writer is gone for good: takes what it had finished but not counted, and counts the
  /// record it was killed in.
  [[nodiscard]] std::optional<Record> next_after_end();

  /// The finished bytes of the table from `offset` on. Asked for after a record was read, they
  /// hold whatever it names.
  [[nodiscard]] std::vector<std::byte> table_from(std::uint64_t offset) const;

  /// The number of the record that comes next.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] const ReadCounts& counts() const { return counts_; }
  /// As it was when this was opened.
  [[nodiscard]] const Header& header() const { return header_; }

 private:
  enum class Slot : std::uint8_t { kFinished, kWriting, kOlder, kNewer, kDamaged };

  RingReader(std::span<const std::byte> memory, const Header& header);

  [[nodiscard]] std::uint64_t written() const;
  [[nodiscard]] Slot read_slot(std::uint64_t number, Record& record) const;
  /// Looks how far the writer is, and skips what it has overwritten.
  void refresh_end();

  std::span<const std::byte> memory_;
  Header header_;
  std::uint64_t position_ = 0;
  std::uint64_t end_ = 0;  // `written` as it was seen last
  ReadCounts counts_;
};

}  // namespace fragscope::trace
