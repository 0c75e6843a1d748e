// SPDX-License-Identifier: Apache-2.0
// A writer at full speed in one process, a reader in another, each with a mapping of its own. A
// reader that took a record before it was whole, or from a slot that the writer was filling again,
// would see words that do not follow from the record's number; a reader that lost count would not
// come out at what was written. A ring that holds milliseconds makes the writer lap the reader all
// the time, also the fast one.
#include "tests/trace/ring_fixture.hpp"

#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <sys/wait.h>

namespace fragscope::trace::test {
namespace {

/// How long the writer writes; FRAGSCOPE_RING_SECONDS sets it.
double seconds() {
  const char* text = std::getenv("FRAGSCOPE_RING_SECONDS");
  return text == nullptr ? 1 : std::stod(text);
}

/// The writer's whole life. Never returns.
[[noreturn]] void write_for(std::byte* memory, double duration_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(duration_s);
  RingWriter writer(memory);
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 1000; ++i)
      writer.append(numbered(writer.written()));
  }
  _exit(0);
}

/// What a reader found wrong; a test looks at it once, since billions of EXPECTs would be slow.
struct Findings {
  std::uint64_t never_written = 0;
  std::uint64_t not_ascending = 0;
  std::uint64_t last = 0;
};

void check(const Record& record, Findings& findings) {
  Record expected = numbered(record.commit - 1);
  expected.commit = record.commit;
  if (std::memcmp(&expected, &record, sizeof(record)) != 0) ++findings.never_written;
  if (record.commit <= findings.last) ++findings.not_ascending;
  findings.last = record.commit;
}

/// Whether the writer is gone, which must have been on its own account.
bool has_ended(pid_t writer) {
  int status = 0;
  const pid_t ended = waitpid(writer, &status, WNOHANG);
  EXPECT_TRUE(ended == 0 || (ended == writer && WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return ended != 0;
}

/// Follows the writer to its end, with a pause after each `records_between_pauses`.
Findings follow(RingReader& reader, pid_t writer, std::uint64_t records_between_pauses) {
  Findings findings;
  std::uint64_t taken = 0;
  bool is_over = false;
  for (;;) {
    const auto record = is_over ? reader.next_after_end() : reader.next();
    if (record) {
      check(*record, findings);
      if (records_between_pauses == 0 || ++taken % records_between_pauses != 0) continue;
      const timespec pause{0, 5'000'000};
      nanosleep(&pause, nullptr);
    } else if (is_over) {
      return findings;
    } else {
      is_over = has_ended(writer);
    }
  }
}

class TwoProcesses : public RingTest {
 protected:
  ReadCounts run(std::uint64_t capacity, std::uint64_t records_between_pauses) {
    const RingFile file = create(capacity);
    const pid_t writer = fork();
    if (writer == 0) write_for(file.memory(), seconds());
    EXPECT_GT(writer, 0);
    const auto mapped = RingFile::open(path());
    EXPECT_TRUE(mapped);
    auto reader = RingReader::open(mapped->bytes());
    EXPECT_TRUE(reader);
    const std::uint64_t missed = reader->position();  // Before there was a reader.

    const Findings findings = follow(*reader, writer, records_between_pauses);

    const ReadCounts counts = reader->counts();
    const std::uint64_t written = file.header().written;
    EXPECT_EQ(findings.never_written, 0U);
    EXPECT_EQ(findings.not_ascending, 0U);
    EXPECT_EQ(findings.last, written);
    EXPECT_EQ(counts.damaged, 0U);
    EXPECT_EQ(counts.torn, 0U);
    EXPECT_EQ(missed + counts.records + counts.overwritten + counts.damaged, written);
    std::printf("%" PRIu64 " written, %" PRIu64 " read, %" PRIu64 " overwritten\n",
                written,
                counts.records,
                counts.overwritten + missed);
    return counts;
  }
};

// How much a fast reader sees depends on what else the machine does; a writer that does nothing but
// write is faster than any reader.
TEST_F(TwoProcesses, AFastReaderTakesOnlyWhatWasWrittenAndLosesCountOfNothing) {
  const ReadCounts counts = run(std::uint64_t{1} << 18, 0);

  EXPECT_GT(counts.records, 0U);
}

TEST_F(TwoProcesses, ASlowReaderLosesManyAndKnowsHowMany) {
  const ReadCounts counts = run(std::uint64_t{1} << 10, 1000);

  EXPECT_GT(counts.records, 0U);
  EXPECT_GT(counts.overwritten, counts.records);
}

}  // namespace
}  // namespace fragscope::trace::test
