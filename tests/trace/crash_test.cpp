// SPDX-License-Identifier: Apache-2.0
// Writers that are killed. A reader recovers every record whose commit word stood, and at most one
// says that it was not finished.
#include "tests/trace/ring_fixture.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>

#include <sys/wait.h>

namespace fragscope::trace::test {
namespace {

using Crash = RingTest;

/// Reads all of it; what was found is whole and without a gap, but for an oldest record whose place
/// was taken.
ReadCounts recover(const RingFile& file, std::uint64_t& last) {
  auto reader = RingReader::open(file.bytes());
  EXPECT_TRUE(reader);
  const std::uint64_t start = reader->position();
  last = start;
  while (const auto record = reader->next_after_end()) {
    EXPECT_TRUE(is_whole(*record));
    EXPECT_GT(record->commit, last);
    last = record->commit;
  }
  EXPECT_EQ(last - start, reader->counts().records + reader->counts().overwritten);
  return reader->counts();
}

/// How often a kill is tried; FRAGSCOPE_KILLS sets it.
int kills() {
  const char* text = std::getenv("FRAGSCOPE_KILLS");
  return text == nullptr ? 200 : std::atoi(text);
}

TEST_F(Crash, AKilledWriterLeavesWholeRecords) {
  std::mt19937_64 draw(1);
  std::uint64_t torn = 0;
  for (int i = 0; i < kills(); ++i) {
    const RingFile file = create(256);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      RingWriter writer(file.memory());
      for (std::uint64_t number = 0;; ++number)
        writer.append(numbered(number));
    }
    const timespec pause{0, static_cast<long>(draw() % 300'000)};
    nanosleep(&pause, nullptr);
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);

    std::uint64_t last = 0;
    const ReadCounts counts = recover(file, last);
    const std::uint64_t written = file.header().written;
    EXPECT_GE(last, written);
    EXPECT_LE(last, written + 1);
    EXPECT_LE(counts.torn, 1U);
    EXPECT_EQ(counts.damaged, 0U);
    // The record that the writer was killed in takes the place of the oldest.
    EXPECT_LE(counts.overwritten, counts.torn + (last - written));
    torn += counts.torn;
    std::filesystem::remove(path());
  }
  RecordProperty("torn", std::to_string(torn));
}

/// The writer's protocol one store at a time, as RingWriter::append makes them.
void append_first_stores(const RingFile& file, std::uint64_t number, int stores) {
  auto* header = reinterpret_cast<Header*>(file.memory());
  auto* slot = reinterpret_cast<std::uint64_t*>(file.memory() + header->record_offset +
                                                number % header->record_capacity * kRecordBytes);
  const Record record = numbered(number);
  std::uint64_t words[kRecordBytes / 8];
  std::memcpy(words, &record, sizeof(record));
  int done = 0;
  const auto store = [&](std::uint64_t& at, std::uint64_t value) {
    if (done++ < stores) at = value;
  };
  store(slot[0], writing_word(number));
  for (std::size_t i = 1; i < std::size(words); ++i)
    store(slot[i], words[i]);
  store(slot[0], commit_word(number));
  store(header->written, number + 1);
}

TEST_F(Crash, AfterEverySingleStoreTheRestIsWhole) {
  constexpr int kStores = 10;
  for (const std::uint64_t before : {0U, 5U, 8U, 21U}) {
    for (int stores = 0; stores <= kStores; ++stores) {
      const RingFile file = create(8);
      RingWriter writer(file.memory());
      for (std::uint64_t i = 0; i < before; ++i)
        writer.append(numbered(i));
      append_first_stores(file, before, stores);
      std::uint64_t last = 0;
      const ReadCounts counts = recover(file, last);
      const bool is_committed = stores >= 9;
      const bool is_torn = stores > 0 && !is_committed;
      EXPECT_EQ(last, before + (is_committed ? 1 : 0));
      EXPECT_EQ(counts.torn, is_torn ? 1U : 0U);
      EXPECT_EQ(counts.damaged, 0U);
      std::filesystem::remove(path());
    }
  }
}

TEST_F(Crash, BehindTheCountStandsAtMostOneRecord) {
  RingFile file = create(8);
  RingWriter writer(file.memory());
  for (std::uint64_t i = 0; i < 5; ++i)
    writer.append(numbered(i));
  file.header().written = 3;  // No writer leaves two.
  std::uint64_t last = 0;
  EXPECT_EQ(recover(file, last).records, 4U);
  EXPECT_EQ(last, 4U);
}

}  // namespace
}  // namespace fragscope::trace::test
