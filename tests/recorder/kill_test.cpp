// SPDX-License-Identifier: Apache-2.0
// Jobs that are killed at any moment. A program is the same each time for the same seed, so that a
// run that nobody kills tells what a ring must hold, and which heap it must show.
#include "tests/recorder/recorded_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "tests/support/result_matchers.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

namespace fragscope::recorder::test {
namespace {

using fragscope::test::IsOk;
using model::EventIndex;
using trace::Record;

constexpr std::uint64_t kMostSteps = 30'000;

/// How often a kill is tried; FRAGSCOPE_KILLS sets it.
int kills() {
  const char* text = std::getenv("FRAGSCOPE_KILLS");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 200 : std::stoi(text);
}

/// What two runs of one program have in common: all but times and threads.
Record without_time(Record record) {
  record.ticks = 0;
  record.thread = 0;
  if (record.kind == trace::RecordKind::kClock) record.address = record.size = 0;
  // How long the driver took for a segment, or for pages.
  if (record.kind <= trace::RecordKind::kSegmentUnmap) record.detail = 0;
  return record;
}

struct Records {
  std::vector<Record> all;
  trace::ReadCounts counts;

  [[nodiscard]] std::uint64_t first() const { return all.front().commit - 1; }
  [[nodiscard]] std::uint64_t end() const { return all.back().commit; }
};

Records read_records(const std::string& path) {
  Records records;
  const auto ring = trace::RingFile::open(path);
  EXPECT_THAT(ring, IsOk());
  auto reader = trace::RingReader::open(ring->bytes());
  EXPECT_THAT(reader, IsOk());
  while (const auto record = reader->next_after_end())
    records.all.push_back(without_time(*record));
  records.counts = reader->counts();
  return records;
}

/// The same program without a kill: how many steps it takes until that many records are there.
std::uint64_t steps_until(RecordedProgram& program, std::uint64_t records) {
  std::uint64_t steps = 0;
  for (; program.recorder()->header().written < records && steps < kMostSteps; ++steps)
    program.step();
  return steps;
}

class Killed : public RecorderTest {
 protected:
  /// The pause is from the start, or from when the ring came round, however long that takes.
  void run_and_kill(std::uint32_t seed, RingSize size, std::uint64_t pause_ns, bool comes_round) {
    std::array<int, 2> started{};
    std::array<int, 2> round{};
    ASSERT_EQ(pipe(started.data()), 0);
    ASSERT_EQ(pipe(round.data()), 0);
    const pid_t child = start_child([&] {
      RecordedProgram program(seed, directory(), size);
      const std::string path = program.ring_path();
      if (write(started[1], path.c_str(), path.size()) < 0) return 1;
      const std::uint64_t steps = comes_round ? steps_until(program, size.records + 1) : 0;
      if (write(round[1], "", 1) < 0) return 1;
      program.run(kMostSteps - steps);
      for (;;)
        pause();
    });
    std::array<char, 512> path{};
    ASSERT_GT(read(started[0], path.data(), path.size() - 1), 0);
    if (comes_round) {
      char told = 0;
      ASSERT_EQ(read(round[0], &told, 1), 1);
    }
    const timespec before{0, static_cast<long>(pause_ns)};
    nanosleep(&before, nullptr);
    kill(child, SIGKILL);
    wait_for(child);
    for (const int end : {started[0], started[1], round[0], round[1]})
      close(end);
    compare(seed, size, path.data());
    std::filesystem::remove(path.data());
  }

  [[nodiscard]] std::uint64_t torn() const { return torn_; }
  [[nodiscard]] std::uint64_t came_round() const { return came_round_; }

 private:
  void compare(std::uint32_t seed, RingSize size, const std::string& path) {
    const auto ring = trace::RingFile::open(path);
    ASSERT_THAT(ring, IsOk());
    const std::uint64_t written = ring->header().written;
    EXPECT_EQ(trace::writer_state(path, ring->header()), trace::WriterState::kDead);
    if (written == 0) return;
    const Records killed = read_records(path);
    EXPECT_GE(killed.end(), written);
    EXPECT_LE(killed.end(), written + 1);
    EXPECT_LE(killed.counts.torn, 1U);
    EXPECT_EQ(killed.counts.damaged, 0U);
    EXPECT_GE(killed.all.size() + killed.counts.torn + 1, std::min(written, size.records));
    torn_ += killed.counts.torn;
    came_round_ += written > size.records ? 1 : 0;
    compare_with_repeated(seed, size, path, killed);
  }

  void compare_with_repeated(std::uint32_t seed,
                             RingSize size,
                             const std::string& path,
                             const Records& killed) {
    const auto back = read_ring(path);
    ASSERT_THAT(back, IsOk()) << "seed " << seed << ", records " << killed.end();
    RecordedProgram repeated(seed, directory(), size);
    const std::uint64_t steps = steps_until(repeated, killed.end());
    ASSERT_GE(repeated.recorder()->header().written, killed.end());
    const Records expected = read_records(repeated.ring_path());
    const std::uint64_t first = std::max(killed.first(), expected.first());
    for (std::uint64_t number = first; number < killed.end(); ++number) {
      const Record& was = killed.all[number - killed.first()];
      ASSERT_EQ(std::memcmp(&was, &expected.all[number - expected.first()], sizeof was), 0)
          << "seed " << seed << ", record " << number;
    }
    const auto expected_back = read_ring(repeated.ring_path(), false);
    ASSERT_THAT(expected_back, IsOk());
    EXPECT_EQ(heap_before(*expected_back, expected.end()), heap_text(repeated.policy()));
    // In the middle of a step nobody but the records knows the heap.
    EXPECT_EQ(heap_before(*back, killed.end()), heap_before(*expected_back, killed.end()))
        << "seed " << seed << ", record " << killed.end();
    std::filesystem::remove(repeated.ring_path());

    RecordedProgram before(seed, directory(), size);
    before.run(steps - std::min<std::uint64_t>(steps, 1));
    const std::uint64_t records = before.recorder()->header().written;
    if (back->history->is_known_before(static_cast<EventIndex>(records))) {
      EXPECT_EQ(heap_before(*back, records), heap_text(before.policy())) << "seed " << seed;
    }
    std::filesystem::remove(before.ring_path());
  }

  std::uint64_t torn_ = 0;
  std::uint64_t came_round_ = 0;
};

TEST_F(Killed, LeavesEveryCommittedRecordAndTheHeapAtTheLast) {
  std::mt19937_64 draw(1);
  for (int i = 0; i < kills() && !HasFatalFailure(); ++i) {
    const RingSize size{std::uint64_t{1} << (i % 2 == 0 ? 12 : 14), std::uint64_t{1} << 16};
    // Most programs are over after that time.
    run_and_kill(static_cast<std::uint32_t>(i + 1), size, draw() % 60'000'000, i % 8 == 0);
  }
  std::printf("%d kills: %llu torn records, %llu rings that came round\n",
              kills(),
              static_cast<unsigned long long>(torn()),
              static_cast<unsigned long long>(came_round()));
  EXPECT_GT(came_round(), 0U);
}

/// A job that frees everything at its end writes no hand-out any more, and the ring may come round
/// meanwhile. It must be replayable all the while.
TEST_F(Killed, CanBeReplayedWhereverAProgramStopsThatOnlyFrees) {
  for (const std::uint64_t blocks : {500U, 1500U}) {
    RecorderOptions options = recorder_options(directory(), {.records = 4096});
    policy::SimulatedDevice device(std::uint64_t{64} << 30);
    policy::SimulatedStreams streams;
    ProcessRecorder recorders(options);
    DeviceRecorder* recorder = recorders.of({0, {}, "Simulated", 0});
    ASSERT_NE(recorder, nullptr);
    policy::CachingPolicy policy(device, streams, {}, recorder);
    recorder->watch(&policy);
    std::vector<policy::Address> live;
    live.reserve(blocks);
    for (std::uint64_t i = 0; i < blocks; ++i)
      live.push_back(policy.allocate(512 + i % 7 * 512, 0)->address);
    for (const policy::Address address : live) {
      ASSERT_TRUE(policy.free(address));
      if (address % 7 != 0) continue;
      const auto back = read_ring(recorders.ring_path(0), false);
      ASSERT_THAT(back, IsOk()) << blocks << " blocks";
      ASSERT_EQ(heap_before(*back, recorder->header().written), heap_text(policy));
    }
  }
}

}  // namespace
}  // namespace fragscope::recorder::test
