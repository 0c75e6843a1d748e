// SPDX-License-Identifier: Apache-2.0
// Which rings of a directory are alive, and which may go: never one that somebody writes, nor
// anything that is not this user's ring; of the evidence the newest stays.
#include "tests/recorder/recorded_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "tests/support/result_matchers.hpp"
#include "trace/process/identity.hpp"
#include "trace/process/ring_directory.hpp"
#include "trace/ring/clock.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <sys/stat.h>

namespace fragscope::recorder::test {
namespace {

using fragscope::test::IsOk;
using trace::WriterState;

/// A ring that a process left behind.
struct Left {
  trace::TraceState state = trace::TraceState::kRecording;
  std::uint64_t failures = 0;
  std::int64_t age_s = 0;
  std::uint64_t records = 64;
};

class RingDirectory : public RecorderTest {
 protected:
  /// Made by a child, so that this process has no lock on it.
  void leave(const std::string& name, const Left& left) {
    ASSERT_EQ(in_child([&] {
                trace::RingOptions options;
                options.process = trace::this_process();
                options.record_capacity = left.records;
                options.table_bytes = 64;
                auto ring = trace::RingFile::create(path(name), options);
                EXPECT_THAT(ring, IsOk());
                ring->header().failures = left.failures;
                ring->end(left.state);
                return 0;
              }),
              0);
    std::filesystem::last_write_time(
        path(name),
        std::filesystem::file_time_type::clock::now() - std::chrono::seconds(left.age_s));
  }
  /// Sets bytes of a ring's header.
  template <class Value>
  void patch(const std::string& name, std::size_t offset, Value value) {
    std::fstream file(path(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return directory() + "/fragscope-" + name + ".ring";
  }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory()))
      names.insert(entry.path().filename().string());
    return names;
  }
  [[nodiscard]] WriterState state(const std::string& name) const {
    const auto ring = trace::RingFile::open(path(name));
    EXPECT_THAT(ring, IsOk());
    return trace::writer_state(path(name), ring->header());
  }
};

using Names = std::set<std::string>;

TEST_F(RingDirectory, APidThatCameAgainIsNotTheWriter) {
  leave("a", {});
  const auto pid = static_cast<std::uint32_t>(getpid());
  const auto start_field =
      offsetof(trace::Header, process) + offsetof(trace::ProcessIdentity, start_ticks);
  const std::uint64_t start = trace::start_of(pid).value_or(0);
  patch("a", offsetof(trace::Header, process) + offsetof(trace::ProcessIdentity, pid), pid);

  patch("a", start_field, start - 1);
  EXPECT_EQ(state("a"), WriterState::kDead);
  patch("a", start_field, start);
  EXPECT_EQ(state("a"), WriterState::kAlive);
  patch("a", offsetof(trace::Header, process), std::uint64_t{1});  // Another start of the machine.
  EXPECT_EQ(state("a"), WriterState::kDead);
}

TEST_F(RingDirectory, AWriterInAnotherPidNamespaceIsAlive) {
  std::array<int, 2> said{};
  ASSERT_EQ(pipe(said.data()), 0);
  const pid_t outer = start_child([&] {
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return kNotHere;
    return wait_for(start_child([&] {
             RecordedProgram program(1, directory());
             const std::string ring = program.ring_path();
             EXPECT_GT(write(said[1], ring.c_str(), ring.size()), 0);
             pause();
             return 0;
           })) == 0
               ? 0
               : 1;
  });
  close(said[1]);
  std::array<char, 512> ring_path{};
  const ssize_t size = read(said[0], ring_path.data(), ring_path.size() - 1);
  close(said[0]);
  if (size <= 0) {
    ASSERT_TRUE(is_not_here(wait_for(outer)));
    GTEST_SKIP() << "no pid namespaces here";
  }

  const auto ring = trace::RingFile::open(ring_path.data());
  ASSERT_THAT(ring, IsOk());
  EXPECT_EQ(ring->header().process.pid, 1U);
  EXPECT_FALSE(trace::is_running(ring->header().process));
  EXPECT_EQ(trace::writer_state(ring_path.data(), ring->header()), WriterState::kAlive);
  EXPECT_EQ(trace::reap_rings(directory(), {.rings = 0, .bytes = 0}), 0U);
  // The first process of a namespace ends with everything in it.
  std::ifstream children("/proc/" + std::to_string(outer) + "/task/" + std::to_string(outer) +
                         "/children");
  pid_t inner = 0;
  children >> inner;
  ASSERT_GT(inner, 0);
  kill(inner, SIGKILL);
  wait_for(outer);
  EXPECT_EQ(trace::writer_state(ring_path.data(), ring->header()), WriterState::kDead);
}

TEST_F(RingDirectory, LosesWhatEndedWellAndNeverWhatIsAlive) {
  leave("ended", {.state = trace::TraceState::kEnded});
  leave("failed", {.state = trace::TraceState::kEnded, .failures = 1});
  leave("dead", {});
  leave("stopped", {.state = trace::TraceState::kUnrecorded});
  RecordedProgram alive(1, directory());  // Its start clears away.

  EXPECT_EQ(names(),
            (Names{"fragscope-failed.ring",
                   "fragscope-dead.ring",
                   "fragscope-stopped.ring",
                   std::filesystem::path(alive.ring_path()).filename().string()}));
  ASSERT_EQ(in_child([&] {
              EXPECT_EQ(trace::reap_rings(directory(), {.rings = 0, .bytes = 0}), 3U);
              return 0;
            }),
            0);
  EXPECT_EQ(names(), (Names{std::filesystem::path(alive.ring_path()).filename().string()}));
}

TEST_F(RingDirectory, KeepsTheNewestEvidenceUpToTheCaps) {
  for (int i = 0; i < 6; ++i) {
    leave(std::to_string(i),
          {.failures = static_cast<std::uint64_t>(i % 2), .age_s = 100 - 10 * i});
  }
  const std::uint64_t bytes = std::filesystem::file_size(path("0"));

  EXPECT_EQ(trace::reap_rings(directory(), {.rings = 4}), 2U);
  EXPECT_EQ(
      names(),
      (Names{"fragscope-2.ring", "fragscope-3.ring", "fragscope-4.ring", "fragscope-5.ring"}));
  EXPECT_EQ(trace::reap_rings(directory(), {.bytes = 2 * bytes}), 2U);
  EXPECT_EQ(names(), (Names{"fragscope-4.ring", "fragscope-5.ring"}));
}

// What is written through a mapping does not change the time of a file in memory: a job that ran
// for a day and died a minute ago would look older than one that died after a second yesterday.
TEST_F(RingDirectory, TakesARingForAsOldAsItsLastRecord) {
  ASSERT_EQ(in_child([&] {
              RecordedProgram program(1, directory());
              program.run(100);
              std::filesystem::rename(program.ring_path(), path("long"));
              raise(SIGKILL);
              return 0;
            }),
            SIGKILL);
  std::filesystem::last_write_time(
      path("long"), std::filesystem::file_time_type::clock::now() - std::chrono::hours(24));
  leave("short", {.age_s = 3600});

  EXPECT_EQ(trace::reap_rings(directory(), {.rings = 1}), 1U);
  EXPECT_EQ(names(), (Names{"fragscope-long.ring"}));
}

TEST_F(RingDirectory, LeavesEverythingElseAlone) {
  std::ofstream(directory() + "/notes.ring") << "x";
  std::ofstream(directory() + "/fragscope-notes.txt") << "x";
  std::ofstream(path("empty")) << "";
  std::ofstream(path("text")) << std::string(100'000, 'x');
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(path("directory"));
  leave("target", {.state = trace::TraceState::kEnded});
  std::filesystem::rename(path("target"), directory() + "/target");
  std::filesystem::create_symlink(directory() + "/target", path("link"));
  std::filesystem::create_symlink("nowhere", path("broken"));
  leave("version", {.state = trace::TraceState::kEnded});
  patch("version", offsetof(trace::Header, version_major), std::uint16_t{2});
  leave("starting", {.state = trace::TraceState::kStarting});
  leave("layout", {.state = trace::TraceState::kEnded});
  patch("layout", offsetof(trace::Header, record_capacity), std::uint64_t{1} << 40);
  const Names before = names();

  EXPECT_EQ(trace::reap_rings(directory(), {.rings = 0, .bytes = 0}), 0U);
  EXPECT_EQ(names(), before);
  const auto rings = trace::list_rings(directory());
  ASSERT_THAT(rings, IsOk());
  EXPECT_EQ(rings->size(), 9U);
  for (const trace::RingEntry& ring : *rings)
    EXPECT_NE(ring.problem, "") << ring.path;
}

TEST_F(RingDirectory, DoesNotTouchAPipe) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(trace::list_rings(directory()), IsOk());
  // Whoever opens it for reading would let a writer go on.
  EXPECT_EQ(open(path("fifo").c_str(), O_WRONLY | O_NONBLOCK), -1);
}

TEST_F(RingDirectory, OfAnotherUserIsNotCleared) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  leave("theirs", {.state = trace::TraceState::kEnded});
  leave("mine", {.state = trace::TraceState::kEnded});
  ASSERT_EQ(chown(path("theirs").c_str(), 65534, 65534), 0);

  EXPECT_EQ(trace::reap_rings(directory(), {.rings = 0, .bytes = 0}), 1U);
  EXPECT_EQ(names(), (Names{"fragscope-theirs.ring"}));
}

TEST_F(RingDirectory, WithAThousandFilesIsClearedInAMoment) {
  leave("0", {});
  for (int i = 1; i < 1000; ++i)
    std::filesystem::copy_file(path("0"), path(std::to_string(i)));
  for (int i = 0; i < 1000; ++i)
    std::ofstream(directory() + "/other" + std::to_string(i)) << "x";

  const std::uint64_t begin = trace::clock_ns(CLOCK_MONOTONIC);
  EXPECT_EQ(trace::reap_rings(directory()), 984U);
  EXPECT_LT(trace::clock_ns(CLOCK_MONOTONIC) - begin, 2'000'000'000U);
}

TEST_F(RingDirectory, ThatIsNotThereHarmsNothing) {
  EXPECT_EQ(trace::reap_rings(directory() + "/missing"), 0U);
  EXPECT_FALSE(trace::list_rings(directory() + "/missing"));
}

}  // namespace
}  // namespace fragscope::recorder::test
