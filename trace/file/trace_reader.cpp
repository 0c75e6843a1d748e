// SPDX-License-Identifier: Apache-2.0
#include "trace/file/trace_reader.hpp"

#include "trace/ring/ring_reader.hpp"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace fragscope::trace {
namespace {

constexpr std::uint64_t kMostTableBytes = std::uint64_t{1} << 30;

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
  return reader.read_chunks(progress).map([&] { return std::move(reader); });
}

Result<void> TraceReader::read_chunks(const ReadProgress& progress) {
  std::uint64_t at = header_.header_bytes;
  while (!is_complete_ && bytes_.size() - at >= sizeof(ChunkHeader)) {
    const auto header = copy_at<ChunkHeader>(bytes_, at);
    if (header.magic != kChunkMagic) return damage(at, "expected a chunk of a trace");
    if (header.bytes > kMostChunkBytes || header.stored > 2 * kMostChunkBytes) {
      return damage(at,
                    "a chunk of " + std::to_string(header.bytes) + " bytes, expected at most " +
                        std::to_string(kMostChunkBytes));
    }
    const std::uint64_t offset = at + sizeof header;
    const std::uint64_t padded = (header.stored + 7) / 8 * 8;
    if (padded > bytes_.size() - offset) break;
    const Chunk chunk{offset, header.stored, header.first, header.bytes, header.codec};
    if (const Result<void> taken = take(header, chunk); !taken) return taken;
    at = offset + padded;
    if (progress) progress(at, bytes_.size());
  }
  cut_bytes_ = bytes_.size() - at;
  return {};
}

Result<void> TraceReader::take(const ChunkHeader& header, const Chunk& chunk) {
  const std::uint64_t at = chunk.offset - sizeof(ChunkHeader);
  switch (header.kind) {
    case ChunkKind::kRecords: {
      const std::uint64_t count = chunk.bytes / header_.record_bytes;
      if (count == 0 || chunk.bytes % header_.record_bytes != 0) {
        return damage(at,
                      "expected whole records, found " + std::to_string(chunk.bytes) + " bytes");
      }
      if (chunk.first < end_record() || chunk.first > ~std::uint64_t{0} / 4) {
        return damage(at,
                      "expected records from number " + std::to_string(end_record()) +
                          " on, found " + std::to_string(chunk.first));
      }
      chunks_.push_back(chunk);
      record_count_ += count;
      return {};
    }
    case ChunkKind::kTable: {
      if (chunk.first != table_bytes_) {
        return damage(at,
                      "expected the table from byte " + std::to_string(table_bytes_) +
                          " on, found " + std::to_string(chunk.first));
      }
      if (chunk.bytes > kMostTableBytes - table_bytes_) {
        return failure(ErrorCode::kTooLarge, "the trace's table is larger than a gibibyte");
      }
      return unpack(chunk).map([&](std::span<const std::byte> bytes) {
        table_.extend(bytes);
        table_bytes_ += bytes.size();
      });
    }
    case ChunkKind::kEnd:
      return unpack(chunk).and_then([&](std::span<const std::byte> bytes) -> Result<void> {
        if (bytes.size() < sizeof(Header)) return damage(at, "expected a header at the end");
        const auto record_bytes = header_.record_bytes;
        header_ = copy_at<Header>(bytes, 0);
        header_.record_bytes = record_bytes;
        is_complete_ = true;
        return {};
      });
  }
  ++unknown_chunks_;
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
std::uint64_t TraceReader::end_record() const {
  return chunks_.empty() ? 0 : chunks_.back().first + chunks_.back().bytes / header_.record_bytes;
}

std::size_t TraceReader::chunk_of(std::uint64_t record) const {
  const auto later = std::ranges::upper_bound(chunks_, record, {}, &Chunk::first);
  const auto index = static_cast<std::size_t>(later - chunks_.begin());
  return index == 0 ? 0 : index - 1;
}

Result<std::span<const Record>> TraceReader::records(std::size_t index) {
  const Chunk& chunk = chunks_[index];
  const auto bytes = unpack(chunk);
  if (!bytes) return tl::unexpected(bytes.error());
  const std::size_t count = bytes->size() / header_.record_bytes;
  std::span<const Record> records(reinterpret_cast<const Record*>(bytes->data()), count);
  const bool is_aligned = std::bit_cast<std::uintptr_t>(bytes->data()) % alignof(Record) == 0;
  if (header_.record_bytes != kRecordBytes || !is_aligned) {
    records_.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(&records_[i], bytes->data() + i * header_.record_bytes, sizeof(Record));
    records = records_;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (records[i].commit != commit_word(chunk.first + i)) {
      return damage(chunk.offset,
                    "record " + std::to_string(chunk.first + i) +
                        " of the trace is not the one that belongs there");
    }
  }
  return records;
}

}  // namespace fragscope::trace
