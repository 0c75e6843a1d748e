// SPDX-License-Identifier: Apache-2.0
// Traces by hand: records with their numbers, the table that they name things in, and whole files
// of chunks, also such as no writer makes.
#pragma once

#include "trace/file/trace_writer.hpp"
#include "trace/format/table.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::test {

using Bytes = std::vector<std::byte>;

/// What a record says of a place.
struct Place {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t other = 0;
};

inline trace::Record record(trace::RecordKind kind, Place place = {}, std::uint8_t flags = 0) {
  trace::Record made;
  made.kind = kind;
  made.address = place.address;
  made.size = place.size;
  made.other = place.other;
  made.flags = flags;
  made.thread = 9;
  return made;
}

/// Numbers records from `first` on.
inline std::vector<trace::Record> numbered(std::vector<trace::Record> records,
                                           std::uint64_t first = 0) {
  for (trace::Record& each : records) {
    each.commit = trace::commit_word(first);
    each.ticks = 1000 * (first + 1);
    ++first;
  }
  return records;
}

/// The header of a file of a device with 1 GiB.
inline trace::Header trace_header() {
  trace::Header header;
  header.state = trace::TraceState::kEnded;
  header.first_anchor = {0, 0, 1'700'000'000'000'000'000};
  header.last_anchor = {1'000'000, 1'000'000, 1'700'000'000'001'000'000};
  header.device_total_bytes = std::uint64_t{1} << 30;
  header.process.pid = 77;
  header.process.random_id[0] = 5;
  return header;
}

inline void append(Bytes& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

/// The bytes of a table, entry after entry; ids count from 1 within each kind.
class TableBuilder {
 public:
  std::uint32_t text(std::string_view text) {
    return add(trace::TableKind::kText, std::as_bytes(std::span(text)));
  }
  std::uint32_t frame(trace::TableFrame frame) {
    return add(trace::TableKind::kFrame, std::as_bytes(std::span(&frame, 1)));
  }
  std::uint32_t stack(std::span<const std::uint32_t> frames) {
    return add(trace::TableKind::kStack, std::as_bytes(frames));
  }
  std::uint32_t stream(std::uint64_t handle) {
    const trace::TableStream stream{handle};
    return add(trace::TableKind::kStream, std::as_bytes(std::span(&stream, 1)));
  }
  std::uint32_t pool(trace::TablePool pool) {
    return add(trace::TableKind::kPool, std::as_bytes(std::span(&pool, 1)));
  }
  std::uint32_t fact(trace::TableFact fact) {
    return add(trace::TableKind::kFact, std::as_bytes(std::span(&fact, 1)));
  }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  std::uint32_t add(trace::TableKind kind, std::span<const std::byte> body) {
    trace::TableEntry entry;
    entry.kind = kind;
    entry.id = ++counts_[static_cast<std::size_t>(kind)];
    entry.bytes = static_cast<std::uint32_t>(body.size());
    append(bytes_, std::as_bytes(std::span(&entry, 1)));
    append(bytes_, body);
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    return entry.id;
  }

  std::uint32_t counts_[7] = {};
  Bytes bytes_;
};

/// A trace file, chunk by chunk. Writes to memory, so nothing fails.
class TraceBuilder {
 public:
  explicit TraceBuilder(const trace::Header& header = trace_header(),
                        trace::ChunkCodec codec = trace::ChunkCodec::kPlain)
      : header_(header) {
    auto writer = trace::TraceWriter::begin(
        header, codec, [this](std::span<const std::byte> bytes) -> Result<void> {
          append(bytes_, bytes);
          return {};
        });
    writer_.push_back(std::move(*writer));
  }
  TraceBuilder(const TraceBuilder&) = delete;
  TraceBuilder& operator=(const TraceBuilder&) = delete;

  TraceBuilder& table(const TableBuilder& table) {
    static_cast<void>(writer_.front().add_table(table.bytes()));
    return *this;
  }
  /// One chunk.
  TraceBuilder& records(std::span<const trace::Record> records) {
    static_cast<void>(writer_.front().add_records(records));
    if (!records.empty()) end_record_ = records.back().commit;
    return *this;
  }
  TraceBuilder& end() {
    static_cast<void>(writer_.front().end(header_, end_record_));
    return *this;
  }
  /// Any chunk, with nothing checked.
  TraceBuilder& chunk(trace::ChunkHeader header, std::span<const std::byte> stored) {
    append(bytes_, std::as_bytes(std::span(&header, 1)));
    append(bytes_, stored);
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    return *this;
  }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  trace::Header header_;
  std::uint64_t end_record_ = 0;
  Bytes bytes_;
  std::vector<trace::TraceWriter> writer_;  // one; it is made after the bytes that it writes to
};

}  // namespace fragscope::test
