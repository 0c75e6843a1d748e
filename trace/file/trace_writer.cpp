// SPDX-License-Identifier: Apache-2.0
#include "trace/file/trace_writer.hpp"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace fragscope::trace {
namespace {

constexpr int kZstdLevel = 3;
constexpr std::array<std::byte, kHeaderBytes> kZeros{};

}  // namespace

void TraceWriter::FreePacker::operator()(ZSTD_CCtx_s* packer) const {
  ZSTD_freeCCtx(packer);
}

TraceWriter::TraceWriter(ChunkCodec codec, ByteSink sink)
    : codec_(codec)
    , sink_(std::move(sink)) {}

Result<TraceWriter> TraceWriter::begin(Header header, ChunkCodec codec, ByteSink sink) {
  TraceWriter writer(codec, std::move(sink));
  if (codec == ChunkCodec::kZstd) {
    writer.packer_.reset(ZSTD_createCCtx());
    if (writer.packer_ == nullptr) return failure(ErrorCode::kTooLarge, "zstd: not enough memory");
    // These take any context and any value of their range.
    ZSTD_CCtx_setParameter(writer.packer_.get(), ZSTD_c_compressionLevel, kZstdLevel);
    // Without it a changed byte may unpack to other records, with nothing to tell by.
    ZSTD_CCtx_setParameter(writer.packer_.get(), ZSTD_c_checksumFlag, 1);
  }
  header.form = TraceForm::kFile;
  header.header_bytes = kHeaderBytes;
  header.record_bytes = kRecordBytes;
  header.record_offset = header.record_capacity = header.table_offset = header.table_bytes = 0;
  return writer.put(std::as_bytes(std::span(&header, 1)))
      .and_then([&] { return writer.put(std::span(kZeros).subspan(sizeof header)); })
      .map([&] { return std::move(writer); });
}

Result<void> TraceWriter::add_records(std::span<const Record> records) {
  constexpr std::size_t kMost = kMostChunkBytes / kRecordBytes;
  for (std::size_t at = 0; at < records.size(); at += kMost) {
    const auto part = records.subspan(at, std::min(kMost, records.size() - at));
    const std::uint64_t first = part.front().commit - 1;
    Result<void> added = add(ChunkKind::kRecords, first, std::as_bytes(part));
    if (!added) return added;
  }
  return {};
}

Result<void> TraceWriter::add_table(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kMostChunkBytes) {
    const auto part = bytes.subspan(at, std::min<std::size_t>(kMostChunkBytes, bytes.size() - at));
    Result<void> added = add(ChunkKind::kTable, table_bytes_, part);
    if (!added) return added;
    table_bytes_ += part.size();
  }
  return {};
}

Result<void> TraceWriter::end(const Header& header, std::uint64_t end_record) {
  return add(ChunkKind::kEnd, end_record, std::as_bytes(std::span(&header, 1)));
}

Result<void> TraceWriter::add(ChunkKind kind,
                              std::uint64_t first,
                              std::span<const std::byte> bytes) {
  ChunkHeader chunk;
  chunk.kind = kind;
  chunk.first = first;
  chunk.bytes = bytes.size();
  chunk.codec = ChunkCodec::kPlain;
  std::span<const std::byte> stored = bytes;
  if (codec_ == ChunkCodec::kZstd) {
    packed_.resize(ZSTD_compressBound(bytes.size()));
    const std::size_t size =
        ZSTD_compress2(packer_.get(), packed_.data(), packed_.size(), bytes.data(), bytes.size());
    if (ZSTD_isError(size) != 0U) {
      return failure(ErrorCode::kTooLarge, std::string("zstd: ") + ZSTD_getErrorName(size));
    }
    chunk.codec = ChunkCodec::kZstd;
    stored = std::span(packed_).first(size);
  }
  chunk.stored = stored.size();
  const std::size_t padding = (8 - stored.size() % 8) % 8;
  return put(std::as_bytes(std::span(&chunk, 1)))
      .and_then([&] { return put(stored); })
      .and_then([&] { return put(std::span(kZeros).first(padding)); });
}

Result<void> TraceWriter::put(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  written_bytes_ += bytes.size();
  return sink_(bytes);
}

}  // namespace fragscope::trace
