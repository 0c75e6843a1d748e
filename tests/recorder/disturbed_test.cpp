// SPDX-License-Identifier: Apache-2.0
// What may befall a job while it is recorded: names that are taken, files that vanish, descriptors
// that others close, signals, a wall clock that steps. A program of its own, since it stands in for
// two functions of the C library.
#include "tests/recorder/recorded_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "tests/support/result_matchers.hpp"
#include "trace/ring/clock.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>

namespace {

int same_random_ids = 0;               // so many more ids are all the same
std::int64_t wall_clock_offset_s = 0;  // how far it was set

}  // namespace

extern "C" ssize_t getrandom(void* bytes, size_t size, unsigned flags) {
  if (same_random_ids > 0) {
    --same_random_ids;
    std::memset(bytes, 'a', size);
    return static_cast<ssize_t>(size);
  }
  return syscall(SYS_getrandom, bytes, size, flags);
}

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec += wall_clock_offset_s;
  return result;
}

namespace fragscope::recorder::test {
namespace {

using fragscope::test::IsOk;

class Disturbed : public RecorderTest {
 protected:
  /// The ring shows the heap; `path` is where it lies now.
  static void expect_sound(RecordedProgram& program, const std::string& path) {
    const auto back = read_ring(path, false);
    ASSERT_THAT(back, IsOk());
    EXPECT_EQ(heap_at_end(*back), heap_text(program.policy()));
  }
};

TEST_F(Disturbed, ByATakenNameItTakesAnother) {
  same_random_ids = 1;
  RecordedProgram first(1, directory());
  same_random_ids = 3;
  RecordedProgram second(2, directory());
  EXPECT_EQ(same_random_ids, 0);

  ASSERT_NE(first.recorder(), nullptr);
  ASSERT_NE(second.recorder(), nullptr);
  EXPECT_NE(first.ring_path(), second.ring_path());
  // It is not smaller for that.
  EXPECT_EQ(second.recorder()->header().record_capacity, RingSize{}.records);
  first.run(500);
  second.run(500);
  expect_sound(first, first.ring_path());
  expect_sound(second, second.ring_path());
}

TEST_F(Disturbed, ByNamesThatAreAllTakenItGoesOnUnrecorded) {
  const StandardError printed;
  same_random_ids = 1;
  RecordedProgram first(1, directory());
  same_random_ids = 1000;
  RecordedProgram second(2, directory());
  same_random_ids = 0;

  EXPECT_EQ(second.recorder(), nullptr);
  second.run(100);
  EXPECT_NE(printed.text().find("File exists"), std::string::npos) << printed.text();
  first.run(100);
  expect_sound(first, first.ring_path());
}

TEST_F(Disturbed, ByALostFileItGoesOn) {
  RecordedProgram program(1, directory());
  program.run(300);
  const auto ring = trace::RingFile::open(program.ring_path());  // As a reader who came before.
  ASSERT_THAT(ring, IsOk());
  std::filesystem::remove(program.ring_path());
  program.run(3000);

  EXPECT_TRUE(program.recorder()->is_recording());
  EXPECT_EQ(ring->header().written, program.recorder()->header().written);
  const auto file = trace::ring_as_file(ring->bytes(), false);
  EXPECT_THAT(file, IsOk());
}

TEST_F(Disturbed, ByARenamedDirectoryItGoesOn) {
  const std::string rings = directory() + "/rings";
  std::filesystem::create_directory(rings);
  RecordedProgram program(1, rings);
  program.run(300);
  std::filesystem::rename(rings, directory() + "/moved");
  program.run(3000);

  const std::string name = std::filesystem::path(program.ring_path()).filename();
  expect_sound(program, directory() + "/moved/" + name);
}

// A ring must not take the number of a standard stream that the job closed: what the job prints
// would go into the ring.
TEST_F(Disturbed, ByClosedStandardStreamsItKeepsTheirNumbersFree) {
  for (const bool can_hide : {true, false}) {
    const int status = in_child([&] {
      for (int stream = 0; stream <= STDERR_FILENO; ++stream)
        close(stream);
      RecordedProgram program(1, directory());
      if (program.recorder() == nullptr) return 2;
      if (!can_hide) trace::reap_rings(directory());
      for (int stream = 0; stream <= STDERR_FILENO; ++stream) {
        if (fcntl(stream, F_GETFD) != -1) return 3;
      }
      program.run(500);
      const auto back = read_ring(program.ring_path(), false);
      return back && heap_at_end(*back) == heap_text(program.policy()) ? 0 : 4;
    });
    EXPECT_EQ(status, 0);
  }
}

// Some programs close everything that they find open, and open files of their own afterwards.
TEST_F(Disturbed, ByDescriptorsThatOthersCloseItClosesNothingOfThem) {
  const int status = in_child([&] {
    const std::string path = directory() + "/theirs";
    {
      RecordedProgram program(1, directory());
      program.run(300);
      for (int number = 3; number < 64; ++number)
        close(number);
      for (int number = 3; number < 64; ++number)
        EXPECT_EQ(open(path.c_str(), O_CREAT | O_RDWR, 0600), number);
      program.run(300);
      // The identity still tells that it is alive.
      EXPECT_EQ(trace::writer_state(program.ring_path(), program.recorder()->header()),
                trace::WriterState::kAlive);
    }
    for (int number = 3; number < 64; ++number)
      EXPECT_NE(fcntl(number, F_GETFD), -1) << number;
    return 0;
  });
  EXPECT_EQ(status, 0);
}

// A profiler's timer must neither make rings small nor run its handler within.
TEST_F(Disturbed, BySignalsItsRingIsNotSmaller) {
  const int status = in_child([&] {
    std::signal(SIGALRM, [](int) {});
    const itimerval often{{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &often, nullptr);
    for (int i = 0; i < 20; ++i) {
      const RingSize size{std::uint64_t{1} << 17, std::uint64_t{1} << 20};
      ProcessRecorder recorders(recorder_options(directory(), size));
      const DeviceRecorder* recorder = recorders.of({0, {}, "Simulated", 0});
      EXPECT_NE(recorder, nullptr);
      EXPECT_EQ(recorder->header().record_capacity, size.records);
      std::filesystem::remove(recorders.ring_path(0));
    }
    return 0;
  });
  EXPECT_EQ(status, 0);
}

// A start that is cut off must not leave megabytes behind which nobody dares to remove.
TEST_F(Disturbed, ByAKillAtItsStartItLeavesNothing) {
  const int probe = open(directory().c_str(), O_TMPFILE | O_RDWR, 0600);
  if (probe < 0) GTEST_SKIP() << "the file system knows no files without names";
  close(probe);
  for (int i = 0; i < 100; ++i) {
    const pid_t child = start_child([&] {
      for (;;) {
        RecordedProgram program(1, directory(), {std::uint64_t{1} << 16, std::uint64_t{1} << 16});
        std::filesystem::remove(program.ring_path());
      }
      return 0;
    });
    const timespec before{0, 1'000'000 + i * 50'000};
    nanosleep(&before, nullptr);
    kill(child, SIGKILL);
    wait_for(child);
    const auto rings = trace::list_rings(directory());
    ASSERT_THAT(rings, IsOk());
    for (const trace::RingEntry& ring : *rings) {
      EXPECT_EQ(ring.problem, "");
      std::filesystem::remove(ring.path);
    }
  }
}

TEST_F(Disturbed, ByAWallClockThatStepsNoTimeMoves) {
  std::uint64_t last_ns = 0;
  for (const std::int64_t step_s : {-86'400, 86'400}) {
    RecordedProgram program(9, directory(), {.records = 4096});
    const std::uint64_t begin_ns = trace::clock_ns(CLOCK_REALTIME);
    program.run(2000);
    wall_clock_offset_s = step_s;
    program.run(20'000);  // With keyframes, which tell the clock.
    const timespec pause{0, 5'000'000};
    nanosleep(&pause, nullptr);
    program.recorder()->stop("to have its last anchor");
    wall_clock_offset_s = 0;
    const std::uint64_t end_ns = trace::clock_ns(CLOCK_REALTIME);

    const auto ring = trace::RingFile::open(program.ring_path());
    ASSERT_THAT(ring, IsOk());
    const auto file = trace::ring_as_file(ring->bytes(), true);
    ASSERT_THAT(file, IsOk());
    auto reader = trace::TraceReader::open(*file);
    ASSERT_THAT(reader, IsOk());
    last_ns = 0;
    for (std::size_t chunk = 0; chunk < reader->chunk_count(); ++chunk) {
      const auto records = reader->records(chunk);
      ASSERT_THAT(records, IsOk());
      for (const trace::Record& record : *records) {
        const std::uint64_t time_ns = trace::unix_ns_at(reader->header(), record.ticks);
        EXPECT_GE(time_ns, last_ns);
        EXPECT_GE(time_ns + 1'000'000, begin_ns);
        EXPECT_LE(time_ns, end_ns + 1'000'000);
        last_ns = time_ns;
      }
    }
    EXPECT_GT(last_ns, begin_ns);
  }
}

}  // namespace
}  // namespace fragscope::recorder::test
