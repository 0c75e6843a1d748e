// SPDX-License-Identifier: Apache-2.0
// Gives small ids to what records name: call stacks, streams, pools, texts. The things themselves
// go into the ring's table once, where a reader finds them after a crash too. Belongs to the one
// writer of the ring; no lock, no system call, and no heap after the constructor.
#pragma once

#include "trace/format/header.hpp"
#include "trace/format/table.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace fragscope::trace {

/// A frame of a call stack as the table keeps it: ids of its texts.
using FrameIds = TableFrame;

class TableWriter {
 public:
  /// `memory` starts with a header whose layout is set and whose table is empty, and outlives this.
  /// Takes four bytes of heap for every 16 bytes of table; may throw std::bad_alloc.
  explicit TableWriter(std::byte* memory);

  // Each gives the id of what is there already, or of a new entry; 0, and a count in the header, if
  // the table is full. Cost: a hash over the bytes and mostly one comparison.
  [[nodiscard]] std::uint32_t text(std::string_view text);
  /// The same, but a new entry takes from `room` bytes, and there must be enough of them.
  [[nodiscard]] std::uint32_t text_within(std::string_view text, std::uint64_t& room);
  [[nodiscard]] std::uint32_t frame(const FrameIds& frame);
  /// Ids of frames, the innermost first. 0 for the empty stack.
  [[nodiscard]] std::uint32_t stack(std::span<const std::uint32_t> frames);
  [[nodiscard]] std::uint32_t stream(std::uint64_t handle);
  [[nodiscard]] std::uint32_t pool(std::uint64_t first, std::uint64_t second);
  /// Ids of two texts.
  [[nodiscard]] std::uint32_t fact(std::uint32_t name, std::uint32_t value);

 private:
  [[nodiscard]] std::uint32_t intern(TableKind kind,
                                     std::span<const std::byte> bytes,
                                     std::uint64_t* room = nullptr);
  /// Whether the entry at `offset` is this one; its id then, else 0.
  [[nodiscard]] std::uint32_t match(std::uint64_t offset,
                                    TableKind kind,
                                    std::span<const std::byte> bytes) const;
  [[nodiscard]] std::uint32_t append(TableKind kind, std::span<const std::byte> bytes);

  Header* header_;
  std::byte* table_;
  std::uint64_t table_bytes_;
  std::uint64_t used_ = 0;
  std::uint32_t next_id_[7] = {1, 1, 1, 1, 1, 1, 1};  // by kind
  std::vector<std::uint32_t> slots_;  // open addressing: offset in units of 8 bytes, plus 1
};

}  // namespace fragscope::trace
