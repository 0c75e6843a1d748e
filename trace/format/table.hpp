// SPDX-License-Identifier: Apache-2.0
// The table of a trace: what records name by a small number, each thing once, in the order in which
// it first came up. Entries stand behind each other, each padded to eight bytes, and never change.
// docs/trace_format.md is the specification; the rules are those of record.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace fragscope::trace {

/// What an entry holds. Ids count from 1 within each kind; 0 means none, or the default one.
enum class TableKind : std::uint32_t {
  kText = 1,    ///< UTF-8, without a zero byte.
  kFrame = 2,   ///< A `TableFrame`.
  kStack = 3,   ///< Ids of frames, 32 bits each, the innermost first.
  kStream = 4,  ///< A `TableStream`.
  kPool = 5,    ///< A `TablePool`.
  kFact = 6,    ///< A `TableFact`.
};

/// In front of the entry's bytes.
struct TableEntry {
  TableKind kind = TableKind::kText;
  std::uint32_t id = 0;
  std::uint32_t bytes = 0;  ///< Of what follows, without padding.
  std::uint32_t reserved = 0;
};

struct TableFrame {
  std::uint32_t name = 0;  ///< Text: the function.
  std::uint32_t file = 0;  ///< Text.
  std::uint32_t line = 0;  ///< 0: not known.
};

struct TableStream {
  std::uint64_t handle = 0;  ///< cudaStream_t as a number.
};

struct TablePool {
  std::uint64_t first = 0;  ///< The two numbers of PyTorch's MempoolId_t.
  std::uint64_t second = 0;
};

/// Something about the device or the driver that stays so; docs/trace_format.md has the names.
struct TableFact {
  std::uint32_t name = 0;   ///< Text.
  std::uint32_t value = 0;  ///< Text.
};

static_assert(sizeof(TableEntry) == 16 && std::is_trivially_copyable_v<TableEntry>);
static_assert(offsetof(TableEntry, id) == 4 && offsetof(TableEntry, bytes) == 8);
static_assert(sizeof(TableFrame) == 12 && offsetof(TableFrame, line) == 8);
static_assert(sizeof(TableStream) == 8 && sizeof(TablePool) == 16 && sizeof(TableFact) == 8);

/// Bytes that an entry takes in the table.
[[nodiscard]] constexpr std::uint64_t table_entry_size(std::uint64_t bytes) {
  return sizeof(TableEntry) + (bytes + 7) / 8 * 8;
}

}  // namespace fragscope::trace
