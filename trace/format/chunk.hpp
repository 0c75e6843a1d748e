// SPDX-License-Identifier: Apache-2.0
// The parts of a trace file: the first page is a header, then comes chunk after chunk, each with
// this in front. A file that was cut off is good up to its last whole chunk. The rules are those of
// record.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace fragscope::trace {

/// What a chunk holds. A reader skips kinds that it does not know.
enum class ChunkKind : std::uint16_t {
  kRecords = 1,  ///< Records with numbers that follow each other; `first` is that of the first.
  kTable = 2,    ///< Bytes of the table from offset `first` on; the pieces come in order.
  kEnd = 3,      ///< The header as it stood at the end; `first` is the number behind the last.
};

enum class ChunkCodec : std::uint16_t {
  kPlain = 0,
  kZstd = 1,  ///< One zstd frame.
};

/// "FSCK" as bytes, a mark to know a chunk by.
inline constexpr std::uint32_t kChunkMagic = 0x4b435346;

struct ChunkHeader {
  std::uint32_t magic = kChunkMagic;
  ChunkKind kind = ChunkKind::kRecords;
  ChunkCodec codec = ChunkCodec::kPlain;
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;   ///< Unpacked; at most `kMostChunkBytes`.
  std::uint64_t stored = 0;  ///< In the file behind this, padded to eight bytes.
};

/// A reader refuses larger ones, so that its memory is bounded.
inline constexpr std::uint64_t kMostChunkBytes = std::uint64_t{16} << 20;

static_assert(sizeof(ChunkHeader) == 32 && std::is_trivially_copyable_v<ChunkHeader>);
static_assert(offsetof(ChunkHeader, kind) == 4 && offsetof(ChunkHeader, codec) == 6);
static_assert(offsetof(ChunkHeader, first) == 8 && offsetof(ChunkHeader, bytes) == 16);
static_assert(offsetof(ChunkHeader, stored) == 24);

}  // namespace fragscope::trace
