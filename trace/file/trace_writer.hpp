// SPDX-License-Identifier: Apache-2.0
// Writes a trace file, chunk after chunk, never going back: what was written before a crash can be
// read. For the tool, not for the user's job.
#pragma once

#include "trace/format/chunk.hpp"
#include "trace/format/header.hpp"
#include "trace/format/record.hpp"
#include "trace/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

struct ZSTD_CCtx_s;

namespace fragscope::trace {

/// Takes bytes in order; an error ends the writing.
using ByteSink = std::function<Result<void>(std::span<const std::byte>)>;

class TraceWriter {
 public:
  /// Writes the first page: `header` in the form of a file.
  [[nodiscard]] static Result<TraceWriter> begin(Header header, ChunkCodec codec, ByteSink sink);

  /// Records whose numbers follow each other; they must come in ascending order.
  [[nodiscard]] Result<void> add_records(std::span<const Record> records);
  /// The next bytes of the table.
  [[nodiscard]] Result<void> add_table(std::span<const std::byte> bytes);
  /// The header as it stands now, and the end of the file. `end_record`: the number behind the last
  /// record that there was, whether it was added or lost.
  [[nodiscard]] Result<void> end(const Header& header, std::uint64_t end_record);

  [[nodiscard]] std::uint64_t written_bytes() const { return written_bytes_; }

 private:
  struct FreePacker {
    void operator()(ZSTD_CCtx_s* packer) const;
  };

  TraceWriter(ChunkCodec codec, ByteSink sink);

  [[nodiscard]] Result<void> add(ChunkKind kind,
                                 std::uint64_t first,
                                 std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> put(std::span<const std::byte> bytes);

  ChunkCodec codec_;
  std::unique_ptr<ZSTD_CCtx_s, FreePacker> packer_;  // none where nothing is packed
  ByteSink sink_;
  std::uint64_t table_bytes_ = 0;
  std::uint64_t written_bytes_ = 0;
  std::vector<std::byte> packed_;
};

}  // namespace fragscope::trace
