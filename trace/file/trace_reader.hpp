// SPDX-License-Identifier: Apache-2.0
// Reads a trace file from its bytes. Opening looks at every chunk's header and reads the tables;
// records are unpacked chunk by chunk, in any order, so that memory does not grow with their
// number. Every byte is taken as hostile.
#pragma once

#include "trace/file/table.hpp"
#include "trace/format/chunk.hpp"
#include "trace/format/header.hpp"
#include "trace/format/record.hpp"
#include "trace/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace fragscope::trace {

/// Whether these bytes begin as a trace does, of any version and form.
[[nodiscard]] bool is_trace(std::span<const std::byte> bytes);

/// How far reading has got, in bytes of the file. What lies before may be read again, in parts.
using ReadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

class TraceReader {
 public:
  /// `bytes` outlives this. Fails: another format or version. A file that ends in the middle of a
  /// chunk is good up to there; a chunk that is damaged or contradicts those before it is passed
  /// over and counted. `progress` is told how far it got.
  [[nodiscard]] static Result<TraceReader> open(std::span<const std::byte> bytes,
                                                const ReadProgress& progress = {});

  /// As it stood at the end, if the file has one, else at the beginning.
  [[nodiscard]] const Header& header() const { return header_; }
  [[nodiscard]] const Table& table() const { return table_; }

  /// Numbers of the first record and behind the last one that the file had; equal if there is
  /// none. The last ones may be missing, too.
  [[nodiscard]] std::uint64_t first_record() const;
  [[nodiscard]] std::uint64_t end_record() const;
  [[nodiscard]] std::uint64_t record_count() const { return record_count_; }

  /// How many chunks of records there are, in ascending order of numbers. Between two of them
  /// records may be missing.
  [[nodiscard]] std::size_t chunk_count() const { return chunks_.size(); }
  [[nodiscard]] std::uint64_t first_of_chunk(std::size_t index) const {
    return chunks_[index].first;
  }
  /// Where the chunk ends in the file.
  [[nodiscard]] std::uint64_t end_of_chunk(std::size_t index) const {
    return chunks_[index].offset + chunks_[index].stored;
  }
  [[nodiscard]] std::uint64_t file_bytes() const { return bytes_.size(); }
  /// The last chunk that begins with this record or one before it, or the first chunk.
  [[nodiscard]] std::size_t chunk_of(std::uint64_t record) const;
  /// The records of one chunk, until the next call. Fails: they do not unpack, or a commit word
  /// does not fit.
  [[nodiscard]] Result<std::span<const Record>> records(std::size_t index);

  /// False: the file has no end, its writer was stopped.
  [[nodiscard]] bool is_complete() const { return is_complete_; }
  /// Parts that were passed over at opening, and what the first one is.
  [[nodiscard]] std::uint64_t damage_count() const { return damage_count_; }
  [[nodiscard]] const std::string& first_damage() const { return first_damage_; }
  /// Bytes behind the last whole chunk.
  [[nodiscard]] std::uint64_t cut_bytes() const { return cut_bytes_; }
  /// Chunks of kinds that this version does not know.
  [[nodiscard]] std::uint64_t unknown_chunks() const { return unknown_chunks_; }

 private:
  struct Chunk {
    std::uint64_t offset = 0;  // of what is stored
    std::uint64_t stored = 0;
    std::uint64_t first = 0;
    std::uint64_t bytes = 0;
    ChunkCodec codec = ChunkCodec::kPlain;
  };

  explicit TraceReader(std::span<const std::byte> bytes);
  void read_chunks(const ReadProgress& progress);
  [[nodiscard]] std::uint64_t find_chunk(std::uint64_t from) const;
  [[nodiscard]] Result<void> take(const ChunkHeader& header, const Chunk& chunk);
  [[nodiscard]] Result<void> take_records(const Chunk& chunk);
  [[nodiscard]] Result<void> take_table(const Chunk& chunk);
  [[nodiscard]] Result<void> take_end(const Chunk& chunk, std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t end_of_records() const;
  [[nodiscard]] Result<void> check_numbers(const Chunk& chunk,
                                           std::span<const std::byte> bytes) const;
  void note(const Error& error);
  [[nodiscard]] Result<std::span<const std::byte>> unpack(const Chunk& chunk);

  std::span<const std::byte> bytes_;
  Header header_;
  Table table_;
  std::uint64_t table_bytes_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<std::byte> unpacked_;
  std::vector<Record> records_;
  std::uint64_t record_count_ = 0;
  std::uint64_t promised_end_ = 0;
  std::uint64_t cut_bytes_ = 0;
  std::uint64_t damage_count_ = 0;
  std::string first_damage_;
  std::uint64_t unknown_chunks_ = 0;
  bool is_complete_ = false;
};

}  // namespace fragscope::trace
