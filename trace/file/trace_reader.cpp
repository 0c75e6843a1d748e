// SPDX-License-Identifier: Apache-2.0
#include "trace/file/trace_reader.hpp"

#include "trace/ring/ring_reader.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace fragscope::trace {
namespace {

constexpr std::uint64_t kMostTableBytes = std::uint64_t{1} << 30;
/// A table unfolds by less; more was made to fill the memory.
constexpr std::uint64_t kMostUnfolding = 300;
/// What does not get smaller by packing is a little larger packed.
constexpr std::uint64_t kMostStoredBytes = 2 * kMostChunkBytes;
constexpr std::uint64_t kMostRecords = ~std::uint64_t{0} / 4;
/// Chunks begin at multiples of this behind the header.
constexpr std::uint64_t kChunkStep = 8;

tl::unexpected<Error> damage(std::uint64_t offset, std::string what) {
  auto error = failure(ErrorCode::kDamaged, std::move(what));
  error.value().byte_offset = offset;
  return error;
}

template <class Value>
Value copy_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// What forbids that a chunk begins with this; empty: nothing.
std::string problem_of(const ChunkHeader& header) {
  if (header.magic != kChunkMagic) return "expected a chunk of a trace";
  if (header.bytes <= kMostChunkBytes && header.stored <= kMostStoredBytes) return {};
  return "a chunk of " + std::to_string(header.bytes) + " bytes, stored as " +
         std::to_string(header.stored) + ", expected at most " + std::to_string(kMostChunkBytes);
}

}  // namespace

bool is_trace(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

TraceReader::TraceReader(std::span<const std::byte> bytes)
    : bytes_(bytes) {}

Result<TraceReader> TraceReader::open(std::span<const std::byte> bytes,
                                      const ReadProgress& progress) {
  auto header = read_header(bytes);
  if (!header) return tl::unexpected(std::move(header.error()));
  if (header->form != TraceForm::kFile) {
    return failure(ErrorCode::kForeign, "expected a trace file, found a ring");
  }
  TraceReader reader(bytes);
  reader.header_ = *header;
  reader.read_chunks(progress);
  return reader;
}

void TraceReader::read_chunks(const ReadProgress& progress) {
  std::uint64_t at = header_.header_bytes;
  while (!is_complete_ && bytes_.size() - at >= sizeof(ChunkHeader)) {
    const auto header = copy_at<ChunkHeader>(bytes_, at);
    const std::uint64_t offset = at + sizeof header;
    const std::uint64_t padded = (std::min(header.stored, kMostStoredBytes) + 7) / 8 * 8;
    const std::string problem = problem_of(header);
    if (problem.empty() && padded <= bytes_.size() - offset) {
      const Chunk chunk{offset, header.stored, header.first, header.bytes, header.codec};
      if (const Result<void> taken = take(header, chunk); !taken) note(taken.error());
      at = offset + padded;
      if (progress) progress(at, bytes_.size());
      continue;
    }
    // Either the file was cut here, or this is damage and something whole follows.
    const std::uint64_t next = find_chunk(at + kChunkStep);
    if (next == bytes_.size() && problem.empty()) break;
    note(
        damage(at, problem.empty() ? "a chunk that reaches behind the next one" : problem).value());
    if (next == bytes_.size()) break;
    at = next;
  }
  cut_bytes_ = bytes_.size() - at;
}

/// Where the next chunk may begin; the end of the file if nowhere.
std::uint64_t TraceReader::find_chunk(std::uint64_t from) const {
  for (std::uint64_t at = from; at < bytes_.size(); at += kChunkStep) {
    if (bytes_.size() - at < sizeof(ChunkHeader)) break;
    if (copy_at<std::uint32_t>(bytes_, at) != kChunkMagic) continue;
    if (problem_of(copy_at<ChunkHeader>(bytes_, at)).empty()) return at;
  }
  return bytes_.size();
}

void TraceReader::note(const Error& error) {
  if (damage_count_++ == 0) first_damage_ = error.describe();
}

Result<void> TraceReader::take(const ChunkHeader& header, const Chunk& chunk) {
  switch (header.kind) {
    case ChunkKind::kRecords:
      return take_records(chunk);
    case ChunkKind::kTable:
      return take_table(chunk);
    case ChunkKind::kEnd:
      return unpack(chunk).and_then(
          [&](std::span<const std::byte> bytes) { return take_end(chunk, bytes); });
  }
  ++unknown_chunks_;
  return {};
}

Result<void> TraceReader::take_records(const Chunk& chunk) {
  const std::uint64_t at = chunk.offset - sizeof(ChunkHeader);
  const std::uint64_t count = chunk.bytes / header_.record_bytes;
  if (count == 0 || chunk.bytes % header_.record_bytes != 0) {
    return damage(at, "expected whole records, found " + std::to_string(chunk.bytes) + " bytes");
  }
  // A chunk before this one that claims numbers that are not its own would keep this one out.
  while (!chunks_.empty() && chunk.first < end_of_records()) {
    const auto claimed = unpack(chunks_.back()).and_then([&](std::span<const std::byte> bytes) {
      return check_numbers(chunks_.back(), bytes);
    });
    if (claimed) break;
    note(claimed.error());
    record_count_ -= chunks_.back().bytes / header_.record_bytes;
    chunks_.pop_back();
  }
  if (chunk.first < end_of_records() || chunk.first > kMostRecords) {
    return damage(at,
                  "expected records from number " + std::to_string(end_of_records()) +
                      " on, found " + std::to_string(chunk.first));
  }
  chunks_.push_back(chunk);
  record_count_ += count;
  return {};
}

Result<void> TraceReader::take_table(const Chunk& chunk) {
  const std::uint64_t at = chunk.offset - sizeof(ChunkHeader);
  if (chunk.first != table_bytes_) {
    return damage(at,
                  "expected the table from byte " + std::to_string(table_bytes_) + " on, found " +
                      std::to_string(chunk.first));
  }
  const std::uint64_t most =
      std::min(kMostTableBytes, kMostChunkBytes + bytes_.size() * kMostUnfolding);
  if (chunk.bytes > most - table_bytes_) {
    return damage(at, "a table of more than " + std::to_string(most) + " bytes");
  }
  return unpack(chunk).map([&](std::span<const std::byte> bytes) {
    table_.extend(bytes);
    table_bytes_ += bytes.size();
  });
}

Result<void> TraceReader::take_end(const Chunk& chunk, std::span<const std::byte> bytes) {
  const std::uint64_t at = chunk.offset - sizeof(ChunkHeader);
  if (bytes.size() < sizeof(Header)) return damage(at, "expected a header at the end");
  const auto end = copy_at<Header>(bytes, 0);
  const bool is_same = end.magic == header_.magic && end.version_major == header_.version_major &&
                       end.device == header_.device &&
                       end.process.random_id == header_.process.random_id;
  if (!is_same) return damage(at, "the header at the end is of another trace than the first one");
  const auto record_bytes = header_.record_bytes;
  header_ = end;
  header_.record_bytes = record_bytes;
  is_complete_ = true;
  if (chunk.first <= kMostRecords) promised_end_ = chunk.first;
  return {};
}

Result<std::span<const std::byte>> TraceReader::unpack(const Chunk& chunk) {
  const auto stored = bytes_.subspan(chunk.offset, chunk.stored);
  if (chunk.codec == ChunkCodec::kPlain) {
    if (chunk.stored != chunk.bytes) return damage(chunk.offset, "a plain chunk of two sizes");
    return stored;
  }
  if (chunk.codec != ChunkCodec::kZstd) return damage(chunk.offset, "an unknown compression");
  unpacked_.resize(chunk.bytes);
  const std::size_t size =
      ZSTD_decompress(unpacked_.data(), unpacked_.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) != 0U || size != chunk.bytes) {
    return damage(
        chunk.offset,
        "expected " + std::to_string(chunk.bytes) + " bytes packed with zstd" +
            (ZSTD_isError(size) != 0U ? std::string(": ") + ZSTD_getErrorName(size) : ""));
  }
  return std::span<const std::byte>(unpacked_);
}

std::uint64_t TraceReader::first_record() const {
  return chunks_.empty() ? 0 : chunks_.front().first;
}
std::uint64_t TraceReader::end_of_records() const {
  return chunks_.empty() ? 0 : chunks_.back().first + chunks_.back().bytes / header_.record_bytes;
}
std::uint64_t TraceReader::end_record() const {
  return chunks_.empty() ? 0 : std::max(end_of_records(), promised_end_);
}

std::size_t TraceReader::chunk_of(std::uint64_t record) const {
  const auto later = std::ranges::upper_bound(chunks_, record, {}, &Chunk::first);
  const auto index = static_cast<std::size_t>(later - chunks_.begin());
  return index == 0 ? 0 : index - 1;
}

/// Every record says its own number.
Result<void> TraceReader::check_numbers(const Chunk& chunk,
                                        std::span<const std::byte> bytes) const {
  const std::size_t count = bytes.size() / header_.record_bytes;
  for (std::size_t i = 0; i < count; ++i) {
    if (copy_at<std::uint64_t>(bytes, i * header_.record_bytes) != commit_word(chunk.first + i)) {
      return damage(chunk.offset,
                    "record " + std::to_string(chunk.first + i) +
                        " of the trace is not the one that belongs there");
    }
  }
  return {};
}

Result<std::span<const Record>> TraceReader::records(std::size_t index) {
  const Chunk& chunk = chunks_[index];
  const auto bytes = unpack(chunk);
  if (!bytes) return tl::unexpected(bytes.error());
  if (const auto checked = check_numbers(chunk, *bytes); !checked) {
    return tl::unexpected(checked.error());
  }
  const std::size_t count = bytes->size() / header_.record_bytes;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(bytes->data()) % alignof(Record) == 0;
  if (header_.record_bytes != kRecordBytes || !is_aligned) {
    records_.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      records_[i] = copy_at<Record>(*bytes, i * header_.record_bytes);
    return std::span<const Record>(records_);
  }
  return std::span(reinterpret_cast<const Record*>(bytes->data()), count);
}

}  // namespace fragscope::trace
