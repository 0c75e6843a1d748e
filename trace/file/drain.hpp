// SPDX-License-Identifier: Apache-2.0
// Turns a ring into a trace file, while its writer runs or afterwards.
#pragma once

#include "trace/file/trace_writer.hpp"
#include "trace/result.hpp"
#include "trace/ring/ring_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fragscope::trace {

class Drain {
 public:
  /// `memory` is the ring, and outlives this. Writes the file's first page.
  [[nodiscard]] static Result<Drain> begin(std::span<const std::byte> memory,
                                           ChunkCodec codec,
                                           ByteSink sink);

  /// Takes everything that is there now, with what its records name. Gives how many records.
  [[nodiscard]] Result<std::uint64_t> pump();
  /// Once the writer is gone, or nobody wants to wait for it: takes the rest, and ends the file.
  [[nodiscard]] Result<void> finish(bool is_writer_gone);

  /// The header as it stands now.
  [[nodiscard]] Header header() const;
  [[nodiscard]] const ReadCounts& counts() const { return reader_.counts(); }
  [[nodiscard]] std::uint64_t position() const { return reader_.position(); }
  [[nodiscard]] std::uint64_t written_bytes() const { return writer_.written_bytes(); }

 private:
  Drain(std::span<const std::byte> memory, RingReader reader, TraceWriter writer);

  [[nodiscard]] Result<void> add(const Record& record);
  [[nodiscard]] Result<void> flush();

  std::span<const std::byte> memory_;
  RingReader reader_;
  TraceWriter writer_;
  std::uint64_t table_bytes_ = 0;
  std::vector<Record> batch_;
  ClockAnchor last_clock_;
};

/// A ring as the bytes of a file: what it holds now. `is_writer_gone`: nobody writes it any more.
[[nodiscard]] Result<std::vector<std::byte>> ring_as_file(std::span<const std::byte> memory,
                                                          bool is_writer_gone);

}  // namespace fragscope::trace
