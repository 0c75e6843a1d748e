// SPDX-License-Identifier: Apache-2.0
#include "trace/file/trace_reader.hpp"

#include "tests/support/result_matchers.hpp"
#include "tests/trace_file/some_trace.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <span>

namespace fragscope::trace {
namespace {

using test::Bytes;
using test::FailsWith;
using test::IsOk;
using test::numbered;
using test::some_records;
using test::TraceBuilder;

/// A file with one field of its first header changed.
template <class Value>
Bytes with_field(Bytes bytes, std::size_t offset, Value value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

TEST(TraceReader, RefusesAnotherMajorVersionAndNamesBoth) {
  const Bytes bytes = with_field<std::uint16_t>(
      test::some_trace(ChunkCodec::kPlain), offsetof(Header, version_major), 2);

  const auto reader = TraceReader::open(bytes);

  ASSERT_THAT(reader, FailsWith(ErrorCode::kForeign));
  EXPECT_EQ(reader.error().message, "the trace has version 2.0, this program reads 1.0");
}

TEST(TraceReader, RefusesARing) {
  Header header = test::trace_header();
  header.header_bytes = kHeaderBytes;
  header.record_offset = kHeaderBytes;
  header.record_capacity = 1;
  header.table_offset = kHeaderBytes + kRecordBytes;
  Bytes bytes(header.table_offset);
  std::memcpy(bytes.data(), &header, sizeof header);

  EXPECT_THAT(TraceReader::open(bytes), FailsWith(ErrorCode::kForeign));
}

TEST(TraceReader, SkipsAndCountsKindsOfChunksThatComeLater) {
  ChunkHeader later;
  later.kind = static_cast<ChunkKind>(40);
  later.bytes = later.stored = 24;
  TraceBuilder builder;
  builder.records(numbered(some_records())).chunk(later, Bytes(24)).end();

  const auto reader = TraceReader::open(builder.bytes());

  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ(reader->unknown_chunks(), 1U);
  EXPECT_EQ(reader->record_count(), 4U);
  EXPECT_TRUE(reader->is_complete());
}

TEST(TraceReader, SkipsWhatIsLongerThanItKnows) {
  // Records of 96 bytes behind a header of two pages: what a later minor version may write.
  Header header = test::trace_header();
  header.form = TraceForm::kFile;
  header.version_minor = 3;
  header.header_bytes = 2 * kHeaderBytes;
  header.record_bytes = 96;
  Bytes file(header.header_bytes);
  std::memcpy(file.data(), &header, sizeof header);
  ChunkHeader chunk;
  const auto records = numbered(some_records());
  chunk.bytes = chunk.stored = 96 * records.size();
  test::append(file, std::as_bytes(std::span(&chunk, 1)));
  for (const Record& record : records) {
    test::append(file, std::as_bytes(std::span(&record, 1)));
    file.resize(file.size() + 32, std::byte{0xee});
  }

  auto reader = TraceReader::open(file);

  ASSERT_THAT(reader, IsOk());
  const auto read = reader->records(0);
  ASSERT_THAT(read, IsOk());
  ASSERT_EQ(read->size(), records.size());
  EXPECT_EQ(std::memcmp(read->data(), records.data(), read->size_bytes()), 0);
}

TEST(TraceReader, LeavesOutAChunkThatGoesBack) {
  TraceBuilder builder;
  builder.records(numbered(some_records(), 100))
      .records(numbered(some_records(), 102))
      .records(numbered(some_records(), 10))
      .records(numbered(some_records(), 104))
      .end();

  const auto reader = TraceReader::open(builder.bytes());

  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ(reader->chunk_count(), 2U);
  EXPECT_EQ(reader->record_count(), 8U);
  EXPECT_EQ(reader->damage_count(), 2U);
  EXPECT_NE(reader->first_damage().find("expected records from number 104 on, found 102"),
            std::string::npos);
}

TEST(TraceReader, LeavesOutAChunkThatClaimsLaterNumbers) {
  // Its records are 0 to 3; the ones that do have those numbers must not be kept out by it.
  ChunkHeader liar;
  const auto records = numbered(some_records());
  liar.first = 1000;
  liar.bytes = liar.stored = records.size() * kRecordBytes;
  TraceBuilder builder;
  builder.chunk(liar, std::as_bytes(std::span(records))).records(records).end();

  const auto reader = TraceReader::open(builder.bytes());

  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ(reader->first_record(), 0U);
  EXPECT_EQ(reader->end_record(), 4U);
  EXPECT_EQ(reader->record_count(), 4U);
  EXPECT_EQ(reader->damage_count(), 1U);
}

TEST(TraceReader, FindsTheNextChunkBehindBrokenBytes) {
  TraceBuilder builder;
  builder.records(numbered(some_records())).records(numbered(some_records(), 4)).end();
  Bytes bytes = builder.bytes();
  bytes[kHeaderBytes] = std::byte{0};  // the first chunk's mark

  const auto reader = TraceReader::open(bytes);

  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ(reader->first_record(), 4U);
  EXPECT_EQ(reader->record_count(), 4U);
  EXPECT_EQ(reader->damage_count(), 1U);
  EXPECT_EQ(reader->first_damage(), "byte 4096: expected a chunk of a trace");
  EXPECT_TRUE(reader->is_complete());
}

TEST(TraceReader, KnowsThatTheLastRecordsAreMissing) {
  TraceBuilder builder;
  builder.records(numbered(some_records())).records(numbered(some_records(), 4)).end();
  Bytes bytes = builder.bytes();
  bytes[kHeaderBytes + sizeof(ChunkHeader) + 4 * kRecordBytes] = std::byte{0};

  const auto reader = TraceReader::open(bytes);

  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ(reader->record_count(), 4U);
  EXPECT_EQ(reader->end_record(), 8U);
}

TEST(TraceReader, TakesNoEndOfAnotherTrace) {
  Header other = test::trace_header();
  other.process.random_id[0] = 6;
  ChunkHeader end;
  end.kind = ChunkKind::kEnd;
  end.bytes = end.stored = sizeof other;
  TraceBuilder builder;
  builder.records(numbered(some_records())).chunk(end, std::as_bytes(std::span(&other, 1)));

  const auto reader = TraceReader::open(builder.bytes());

  ASSERT_THAT(reader, IsOk());
  EXPECT_FALSE(reader->is_complete());
  EXPECT_EQ(reader->damage_count(), 1U);
  EXPECT_EQ(reader->header().process.random_id[0], 5);
}

TEST(TraceReader, BoundsTheTableByTheFile) {
  // Sixteen mebibytes of zeros pack into little: a table of them is no table.
  const Bytes zeros(kMostChunkBytes);
  Bytes file;
  auto writer = TraceWriter::begin(
      test::trace_header(), ChunkCodec::kZstd, [&file](auto bytes) -> Result<void> {
        test::append(file, bytes);
        return {};
      });
  ASSERT_THAT(writer, IsOk());
  for (int i = 0; i < 8; ++i)
    ASSERT_THAT(writer->add_table(zeros), IsOk());
  ASSERT_LT(file.size(), 64U << 10);

  const auto reader = TraceReader::open(file);

  ASSERT_THAT(reader, IsOk());
  EXPECT_GE(reader->damage_count(), 6U);
}

TEST(TraceReader, CountsWhatLiesBehindTheEnd) {
  Bytes bytes = test::some_trace(ChunkCodec::kPlain);
  bytes.resize(bytes.size() + 24);

  const auto reader = TraceReader::open(bytes);

  ASSERT_THAT(reader, IsOk());
  EXPECT_TRUE(reader->is_complete());
  EXPECT_EQ(reader->cut_bytes(), 24U);
}

}  // namespace
}  // namespace fragscope::trace
