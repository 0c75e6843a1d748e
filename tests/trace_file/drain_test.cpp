// SPDX-License-Identifier: Apache-2.0
#include "trace/file/drain.hpp"

#include "tests/support/result_matchers.hpp"
#include "tests/trace_file/some_trace.hpp"
#include "trace/file/trace_reader.hpp"
#include "trace/process/identity.hpp"
#include "trace/ring/clock.hpp"
#include "trace/ring/ring_writer.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace fragscope::trace {
namespace {

using test::Bytes;
using test::IsOk;

/// The memory of a ring with a writer.
class Ring {
 public:
  explicit Ring(std::uint64_t capacity, const Header& like = test::trace_header())
      : words_((kHeaderBytes + capacity * kRecordBytes) / sizeof(std::uint64_t)) {
    Header header = like;
    header.header_bytes = kHeaderBytes;
    header.record_offset = kHeaderBytes;
    header.record_capacity = capacity;
    header.table_offset = kHeaderBytes + capacity * kRecordBytes;
    header.state = TraceState::kRecording;
    std::memcpy(words_.data(), &header, sizeof header);
  }
  [[nodiscard]] std::byte* memory() { return reinterpret_cast<std::byte*>(words_.data()); }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(words_));
  }
  void write(std::uint64_t count) {
    RingWriter writer(memory());
    for (std::uint64_t i = 0; i < count; ++i) {
      Record record = test::record(RecordKind::kMark);
      writer.append(record);
    }
  }
  void set_commit(std::uint64_t slot, std::uint64_t commit) {
    std::memcpy(memory() + kHeaderBytes + slot * kRecordBytes, &commit, sizeof commit);
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// Every chunk of a drained file can be read; gives how many records there are.
std::uint64_t readable_records(const Bytes& file) {
  auto reader = TraceReader::open(file);
  EXPECT_THAT(reader, IsOk());
  std::uint64_t count = 0;
  for (std::size_t i = 0; reader && i < reader->chunk_count(); ++i) {
    const auto records = reader->records(i);
    EXPECT_THAT(records, IsOk());
    if (records) count += records->size();
  }
  return count;
}

TEST(Drain, BeginsAChunkBehindEveryGap) {
  Ring ring(16);
  ring.write(12);
  ring.set_commit(3, 99);
  ring.set_commit(7, 99);

  const auto file = ring_as_file(ring.bytes(), false);

  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(readable_records(*file), 10U);
}

TEST(Drain, TakesEverySoundRecordOfARingThatCameRound) {
  Ring ring(8);
  ring.write(8);
  auto file = Bytes();
  auto drain = Drain::begin(ring.bytes(), ChunkCodec::kPlain, [&file](auto bytes) -> Result<void> {
    test::append(file, bytes);
    return {};
  });
  ASSERT_THAT(drain, IsOk());
  ring.write(12);
  for (const std::uint64_t slot : {6U, 1U, 3U})
    ring.set_commit(slot, 99);

  ASSERT_THAT(drain->finish(true), IsOk());

  EXPECT_EQ(readable_records(file), 5U);
  EXPECT_EQ(drain->counts().damaged, 3U);
}

TEST(Drain, GivesTheCounterARateBeforeTheFileHasAnEnd) {
  // A drained file that is never ended must show times all the same.
  Header header = test::trace_header();
  header.clock = ClockKind::kMonotonicNs;
  header.process.boot_id = this_boot();
  header.first_anchor = header.last_anchor = {1, 1, 1'700'000'000'000'000'000};
  Ring ring(8, header);
  Bytes file;

  const auto drain =
      Drain::begin(ring.bytes(), ChunkCodec::kPlain, [&file](auto bytes) -> Result<void> {
        test::append(file, bytes);
        return {};
      });

  ASSERT_THAT(drain, IsOk());
  const auto reader = TraceReader::open(file);
  ASSERT_THAT(reader, IsOk());
  EXPECT_GT(reader->header().last_anchor.monotonic_ns, 1U);
}

}  // namespace
}  // namespace fragscope::trace
