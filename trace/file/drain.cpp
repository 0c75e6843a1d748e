// SPDX-License-Identifier: Apache-2.0
#include "trace/file/drain.hpp"

#include "trace/process/identity.hpp"

#include <utility>

namespace fragscope::trace {
namespace {

constexpr std::size_t kBatchRecords = std::size_t{1} << 16;

/// The header with a second moment: on another machine that of the last record which has one. A
/// file that is never ended has only the one of its beginning.
Header with_anchors(const Header& header, const ClockAnchor& last_clock) {
  Header known = with_second_moment(header);
  const bool has_one = known.last_anchor.ticks != known.first_anchor.ticks;
  if (!has_one && last_clock.ticks != 0) known.last_anchor = last_clock;
  return known;
}

}  // namespace

Drain::Drain(std::span<const std::byte> memory, RingReader reader, TraceWriter writer)
    : memory_(memory)
    , reader_(reader)
    , writer_(std::move(writer)) {
  batch_.reserve(kBatchRecords);
}

Result<Drain> Drain::begin(std::span<const std::byte> memory, ChunkCodec codec, ByteSink sink) {
  auto reader = RingReader::open(memory);
  if (!reader) return tl::unexpected(std::move(reader.error()));
  auto writer = TraceWriter::begin(with_anchors(reader->header(), {}), codec, std::move(sink));
  if (!writer) return tl::unexpected(std::move(writer.error()));
  return Drain(memory, *reader, std::move(*writer));
}

Result<std::uint64_t> Drain::pump() {
  std::uint64_t taken = 0;
  while (const auto record = reader_.next()) {
    ++taken;
    if (const auto added = add(*record); !added) return tl::unexpected(added.error());
  }
  return flush().map([taken] { return taken; });
}

Result<void> Drain::add(const Record& record) {
  // A chunk holds records without gaps.
  const bool follows = batch_.empty() || record.commit == batch_.back().commit + 1;
  if (!follows || batch_.size() == kBatchRecords) {
    if (auto flushed = flush(); !flushed) return flushed;
  }
  batch_.push_back(record);
  if (record.kind == RecordKind::kClock) last_clock_ = {record.ticks, record.address, record.size};
  return {};
}

Result<void> Drain::flush() {
  if (batch_.empty()) return {};
  // What records name was finished before they were, so the table goes first.
  const std::vector<std::byte> table = reader_.table_from(table_bytes_);
  table_bytes_ += table.size();
  return writer_.add_table(table).and_then([&] { return writer_.add_records(batch_); }).map([&] {
    batch_.clear();
  });
}

Header Drain::header() const {
  auto now = read_header(memory_);
  Header header = now ? *now : reader_.header();
  header.overwritten = counts().overwritten;
  header.torn = counts().torn;
  header.damaged = counts().damaged;
  return with_anchors(header, last_clock_);
}

Result<void> Drain::finish(bool is_writer_gone) {
  if (auto pumped = pump(); !pumped) return tl::unexpected(std::move(pumped.error()));
  if (is_writer_gone) {
    while (const auto record = reader_.next_after_end()) {
      if (auto added = add(*record); !added) return added;
    }
  }
  return flush().and_then(
      [&] { return writer_.end(header(), reader_.position() - reader_.counts().torn); });
}

Result<std::vector<std::byte>> ring_as_file(std::span<const std::byte> memory,
                                            bool is_writer_gone) {
  std::vector<std::byte> file;
  auto drain = Drain::begin(
      memory, ChunkCodec::kPlain, [&file](std::span<const std::byte> bytes) -> Result<void> {
        file.insert(file.end(), bytes.begin(), bytes.end());
        return {};
      });
  if (!drain) return tl::unexpected(std::move(drain.error()));
  return drain->finish(is_writer_gone).map([&file] { return std::move(file); });
}

}  // namespace fragscope::trace
