// SPDX-License-Identifier: Apache-2.0
#include "tests/trace/ring_fixture.hpp"
#include "trace/ring/clock.hpp"

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <sys/stat.h>

namespace fragscope::trace::test {
namespace {

using Ring = RingTest;

TEST_F(Ring, GivesBackWhatWasWrittenInOrder) {
  RingFile file = create(8);
  RingWriter writer(file.memory());
  for (std::uint64_t i = 0; i < 5; ++i)
    writer.append(numbered(i));
  auto reader = RingReader::open(file.bytes());
  ASSERT_TRUE(reader);
  for (std::uint64_t i = 0; i < 5; ++i) {
    const auto record = reader->next();
    ASSERT_TRUE(record);
    EXPECT_EQ(record->commit, i + 1);
    EXPECT_TRUE(is_whole(*record));
  }
  EXPECT_FALSE(reader->next());
  EXPECT_FALSE(reader->next_after_end());
  EXPECT_EQ(reader->counts().records, 5U);
  EXPECT_EQ(reader->counts().torn + reader->counts().damaged + reader->counts().overwritten, 0U);
}

TEST_F(Ring, KeepsTheNewestOnceItIsFull) {
  RingFile file = create(8);
  RingWriter writer(file.memory());
  for (std::uint64_t i = 0; i < 21; ++i)
    writer.append(numbered(i));
  auto reader = RingReader::open(file.bytes());
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->position(), 13U);
  for (std::uint64_t i = 13; i < 21; ++i)
    EXPECT_TRUE(is_whole(reader->next().value()));
  EXPECT_FALSE(reader->next());
  EXPECT_EQ(reader->counts().overwritten, 0U);
}

TEST_F(Ring, CountsWhatASlowReaderMissed) {
  RingFile file = create(8);
  RingWriter writer(file.memory());
  writer.append(numbered(0));
  auto reader = RingReader::open(file.bytes());
  ASSERT_TRUE(reader);
  for (std::uint64_t i = 1; i < 30; ++i)
    writer.append(numbered(i));
  std::uint64_t read = 0;
  while (reader->next())
    ++read;
  EXPECT_EQ(read, 8U);
  EXPECT_EQ(reader->counts().overwritten, 22U);
}

TEST_F(Ring, AnotherProcessContinuesWhereTheFirstEnded) {
  {
    RingFile file = create(8);
    RingWriter(file.memory()).append(numbered(0));
  }
  auto mapped = RingFile::open(path());
  ASSERT_TRUE(mapped);
  auto reader = RingReader::open(mapped->bytes());
  ASSERT_TRUE(reader);
  EXPECT_TRUE(is_whole(reader->next().value()));
  EXPECT_EQ(reader->header().process.pid, static_cast<std::uint32_t>(getpid()));
}

TEST_F(Ring, IsItsOwnersAlone) {
  const RingFile file = create(8);
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_GE(static_cast<std::uint64_t>(status.st_blocks) * 512, file.bytes().size());
}

TEST_F(Ring, IsNotMadeOverAnotherFile) {
  const RingFile first = create(8);
  const auto second = RingFile::create(path(), {});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().describe().find("File exists"), std::string::npos);
}

TEST_F(Ring, IsNotMadeWhereThereIsNoPlace) {
  EXPECT_FALSE(RingFile::create("/proc/fragscope_ring", {}));
  EXPECT_FALSE(RingFile::create(path() + "/no/such/folder", {}));
  RingOptions odd;
  odd.record_capacity = 12;
  EXPECT_FALSE(RingFile::create(path(), odd));
}

TEST_F(Ring, RefusesAnotherVersionAndNamesBoth) {
  RingFile file = create(8);
  file.header().version_major = 7;
  file.header().version_minor = 2;
  const auto reader = RingReader::open(file.bytes());
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().message, "the trace has version 7.2, this program reads 1.0");
}

TEST_F(Ring, RefusesPartsThatLieOutside) {
  RingFile file = create(8);
  const Header sound = file.header();
  const auto is_refused = [&](auto change) {
    file.header() = sound;
    change(file.header());
    return !RingReader::open(file.bytes());
  };
  EXPECT_TRUE(is_refused([](Header& h) { h.record_capacity = std::uint64_t{1} << 60; }));
  EXPECT_TRUE(is_refused([](Header& h) { h.record_capacity = 7; }));
  EXPECT_TRUE(is_refused([](Header& h) { h.record_capacity = 0; }));
  EXPECT_TRUE(is_refused([](Header& h) { h.record_offset = ~std::uint64_t{7}; }));
  EXPECT_TRUE(is_refused([](Header& h) { h.record_offset = 4097; }));
  EXPECT_TRUE(is_refused([](Header& h) { h.record_bytes = 32; }));
  EXPECT_TRUE(is_refused([](Header& h) { h.table_bytes = ~std::uint64_t{0}; }));
  EXPECT_TRUE(is_refused([](Header& h) { h.magic[0] = 'X'; }));
  EXPECT_TRUE(is_refused([](Header& h) { h.state = TraceState::kStarting; }));
  EXPECT_FALSE(is_refused([](Header&) {}));
}

TEST_F(Ring, ReadsRecordsThatALaterVersionMadeLonger) {
  RingFile file = create(8);
  file.header().record_bytes = 128;
  file.header().record_capacity = 4;
  std::byte* slots = file.memory() + file.header().record_offset;
  for (std::uint64_t i = 0; i < 3; ++i) {
    Record record = numbered(i);
    record.commit = commit_word(i);
    std::memcpy(slots + i * 128, &record, sizeof(record));
  }
  file.header().written = 3;
  auto reader = RingReader::open(file.bytes());
  ASSERT_TRUE(reader);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(is_whole(reader->next().value()));
}

TEST_F(Ring, AnyBytesEndInBoundedTime) {
  RingFile file = create(16);
  const Header sound = file.header();
  std::mt19937_64 draw(1);
  constexpr std::size_t kSlotWords = 128;
  for (int round = 0; round < 20'000; ++round) {
    file.header() = sound;
    auto* words = reinterpret_cast<std::uint64_t*>(file.memory());
    const std::size_t count = file.bytes().size() / sizeof(std::uint64_t);
    for (int i = 0; i < 12; ++i) {
      const std::size_t at = draw() % 4 == 0 ? draw() % 24 : 512 + draw() % kSlotWords;
      words[at % count] = draw() % 3 == 0 ? draw() : draw() % 64;
    }
    auto reader = RingReader::open(file.bytes());
    if (!reader) continue;
    std::uint64_t read = 0;
    while (reader->next_after_end())
      ++read;
    EXPECT_LE(read, reader->header().record_capacity + 1);
  }
}

// The number behind the last one is 0, and so is the commit word of a slot that was never used.
TEST_F(Ring, ACountBeyondAllNumbersEndsReading) {
  RingFile file = create(8);
  file.header().written = ~std::uint64_t{0};
  auto reader = RingReader::open(file.bytes());
  ASSERT_TRUE(reader);
  constexpr int kMany = 1000;
  int read = 0;
  while (read < kMany && reader->next_after_end())
    ++read;
  EXPECT_EQ(read, 0);
}

// One mapping, since ThreadSanitizer does not see another one of the same memory.
TEST_F(Ring, AReaderBesideTheWriterTakesNothingThatWasNotWritten) {
  RingFile file = create(64);
  constexpr std::uint64_t kRecords = 200'000;
  auto reader = RingReader::open(file.bytes());
  ASSERT_TRUE(reader);
  std::thread writing([&file] {
    RingWriter writer(file.memory());
    for (std::uint64_t i = 0; i < kRecords; ++i)
      writer.append(numbered(i));
  });
  std::uint64_t last = 0;
  while (reader->position() < kRecords) {
    const auto record = reader->next();
    if (!record) continue;
    EXPECT_TRUE(is_whole(*record));
    EXPECT_GT(record->commit, last);
    last = record->commit;
  }
  writing.join();
  EXPECT_EQ(reader->counts().records + reader->counts().overwritten, kRecords);
  EXPECT_EQ(reader->counts().damaged, 0U);
}

TEST(Clock, TicksFollowTheSystemsTime) {
  Header header;
  header.clock = best_clock();
  header.first_anchor = anchor_now(header.clock);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  header.last_anchor = anchor_now(header.clock);
  const std::uint64_t unix_ns = unix_ns_at(header, ticks_now(header.clock));
  EXPECT_NEAR(static_cast<double>(unix_ns), static_cast<double>(clock_ns(CLOCK_REALTIME)), 5e6);
}

TEST(Clock, AnchorsOfADamagedTraceGiveSomeTime) {
  Header header;
  header.clock = ClockKind::kTsc;
  header.first_anchor = {~std::uint64_t{0}, 5, ~std::uint64_t{0}};
  header.last_anchor = {0, ~std::uint64_t{0}, 0};
  EXPECT_EQ(unix_ns_at(header, 0), ~std::uint64_t{0});
  header.first_anchor = {0, 0, 0};
  header.last_anchor = {1, ~std::uint64_t{0}, 0};
  EXPECT_GT(unix_ns_at(header, ~std::uint64_t{0}), 0U);
}

}  // namespace
}  // namespace fragscope::trace::test
