// SPDX-License-Identifier: Apache-2.0
#include "trace/file/trace_writer.hpp"

#include "tests/support/result_matchers.hpp"
#include "tests/trace_file/some_trace.hpp"
#include "trace/file/trace_reader.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace fragscope::trace {
namespace {

using test::Bytes;
using test::FailsWith;
using test::IsOk;
using test::numbered;

std::vector<Record> all_records(TraceReader& reader) {
  std::vector<Record> all;
  for (std::size_t i = 0; i < reader.chunk_count(); ++i) {
    const auto records = reader.records(i);
    EXPECT_THAT(records, IsOk());
    if (records) all.insert(all.end(), records->begin(), records->end());
  }
  return all;
}

bool is_same(std::span<const Record> a, std::span<const Record> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class TraceWriterForm : public ::testing::TestWithParam<ChunkCodec> {};

TEST_P(TraceWriterForm, WritesWhatTheReaderGivesBack) {
  std::vector<Record> want = numbered(test::some_records());
  const std::vector<Record> later = numbered(test::some_keyframe(), 4);
  want.insert(want.end(), later.begin(), later.end());

  const Bytes file = test::some_trace(GetParam());
  auto reader = TraceReader::open(file);

  ASSERT_THAT(reader, IsOk());
  EXPECT_TRUE(is_same(all_records(*reader), want));
  EXPECT_EQ(reader->chunk_count(), 2U);
  EXPECT_EQ(reader->first_record(), 0U);
  EXPECT_EQ(reader->end_record(), 9U);
  EXPECT_EQ(reader->table().text(2), "train.py");
  EXPECT_EQ(reader->header().device_total_bytes, std::uint64_t{1} << 30);
  EXPECT_TRUE(reader->is_complete());
  EXPECT_EQ(reader->cut_bytes() + reader->unknown_chunks() + reader->damage_count(), 0U);
}

TEST_P(TraceWriterForm, DividesMoreThanAChunkHolds) {
  const std::size_t count = kMostChunkBytes / kRecordBytes + 5;
  std::vector<Record> want(count, test::record(RecordKind::kMark));
  want = numbered(std::move(want), 70);

  const Bytes file =
      test::TraceBuilder(test::trace_header(), GetParam()).records(want).end().bytes();
  auto reader = TraceReader::open(file);

  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ(reader->chunk_count(), 2U);
  EXPECT_EQ(reader->record_count(), count);
  EXPECT_EQ(reader->chunk_of(70 + count - 1), 1U);
  EXPECT_TRUE(is_same(all_records(*reader), want));
}

INSTANTIATE_TEST_SUITE_P(Codecs,
                         TraceWriterForm,
                         ::testing::Values(ChunkCodec::kPlain, ChunkCodec::kZstd));

TEST(TraceWriter, HandsOnWhatTheSinkRefuses) {
  std::size_t room = 3;
  const auto sink = [&room](std::span<const std::byte>) -> Result<void> {
    if (room-- > 0) return {};
    return failure(ErrorCode::kUnreadable, "full");
  };
  auto writer = TraceWriter::begin(test::trace_header(), ChunkCodec::kPlain, sink);
  ASSERT_THAT(writer, IsOk());

  const auto added = writer->add_records(numbered(test::some_records()));

  EXPECT_THAT(added, FailsWith(ErrorCode::kUnreadable));
}

}  // namespace
}  // namespace fragscope::trace
