// SPDX-License-Identifier: Apache-2.0
// Jobs that fork in the middle, while other threads record: children leave no trace in the parent's
// ring, whichever way they came and go, and do not keep it alive.
#include "tests/recorder/recorded_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "tests/support/result_matchers.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/syscall.h>

namespace fragscope::recorder::test {
namespace {

using fragscope::test::IsOk;
using trace::WriterState;

/// fork without the C library's handlers.
pid_t plain_fork() {
#if __GLIBC_PREREQ(2, 34)
  return _Fork();
#else
  return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
#endif
}

/// All that a recorder can be asked to do, by a child.
void try_everything(RecordedProgram& program) {
  DeviceRecorder& recorder = *program.recorder();
  program.run(200);
  const FrameText frames[] = {{"only", "in_the_child.py", 1}};
  recorder.set_stack(recorder.intern_stack(frames));
  recorder.mark("child", MarkKind::kPoint);
  recorder.settings("of:the child");
  recorder.device_memory({1, 2}, 3);
  recorder.snapshot_taken(4);
  recorder.keyframe();
  program.allocate(std::uint64_t{1} << 41);
  recorder.stop("the child says so");
}

std::vector<std::byte> bytes_of(const std::string& path) {
  const auto ring = trace::RingFile::open(path);
  EXPECT_THAT(ring, IsOk());
  return {ring->bytes().begin(), ring->bytes().end()};
}

class Fork : public RecorderTest {
 protected:
  Fork()
      : program_(std::make_unique<RecordedProgram>(11, directory())) {
    program_->run(1000);
  }
  [[nodiscard]] RecordedProgram& program() { return *program_; }
  [[nodiscard]] std::unique_ptr<RecordedProgram> take_program() { return std::move(program_); }

  /// What a child does must not change a byte of the ring.
  template <class Start>
  void expect_untouched(Start start) {
    const std::string path = program().ring_path();
    const std::vector<std::byte> before = bytes_of(path);
    EXPECT_EQ(wait_for(start()), 0);
    EXPECT_EQ(bytes_of(path), before);
  }

 private:
  std::unique_ptr<RecordedProgram> program_;
};

TEST_F(Fork, LeavesTheRingToTheParent) {
  expect_untouched([&] {
    return start_child([&] {
      try_everything(program());
      return 0;
    });
  });
}

TEST_F(Fork, WithoutTheLibrarysHandlersIsSeenAsWell) {
  expect_untouched([&] {
    const pid_t child = plain_fork();
    if (child == 0) {
      try_everything(program());
      _exit(0);
    }
    return child;
  });
}

TEST_F(Fork, OfAChildOfAChildIsSeenAsWell) {
  expect_untouched([&] {
    return start_child([&] {
      return in_child([&] {
        try_everything(program());
        return 0;
      });
    });
  });
}

TEST_F(Fork, EndsWithDestructorsAndTouchesNothing) {
  expect_untouched([&] {
    return start_child([&] {
      program().run(100);
      take_program().reset();
      return 0;
    });
  });
  EXPECT_EQ(program().recorder()->header().state, trace::TraceState::kRecording);
  program().run(500);
  const auto back = read_ring(program().ring_path(), false);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(heap_at_end(*back), heap_text(program().policy()));
}

// A child may be the first one to use a device: what it has opened itself it records.
TEST_F(Fork, HasRingsOfItsOwnForOtherDevices) {
  const int status = in_child([&] {
    const RecordedDevice another{1, {}, "Simulated", 0};
    DeviceRecorder* recorder = program().recorders().of(another);
    if (recorder == nullptr) return 2;
    recorder->mark("mine", MarkKind::kPoint);
    EXPECT_EQ(recorder->header().written, 2U);  // Settings and mark.
    EXPECT_EQ(recorder->header().process.pid, static_cast<std::uint32_t>(getpid()));
    const auto ring = trace::RingFile::open(program().recorders().ring_path(1));
    EXPECT_THAT(ring, IsOk());
    const auto record = trace::RingReader::open(ring->bytes())->next();
    EXPECT_EQ(record->thread, static_cast<std::uint32_t>(syscall(SYS_gettid)));
    EXPECT_EQ(in_child([&] {
                recorder->mark("the grandchild's", MarkKind::kPoint);
                return 0;
              }),
              0);
    EXPECT_EQ(recorder->header().written, 2U);
    return 0;
  });
  EXPECT_EQ(status, 0);
}

/// Runs a job that forks a child which goes on for ever, and tells both pids; then waits.
struct Job {
  pid_t parent = -1;
  pid_t child = -1;
  std::string path;
};

Job start_job(const std::string& directory) {
  std::array<int, 2> said{};
  EXPECT_EQ(pipe(said.data()), 0);
  Job job;
  job.parent = start_child([&] {
    RecordedProgram program(5, directory);
    program.run(300);
    const pid_t child = fork();
    if (child == 0) {
      for (;;)
        program.step();
    }
    const std::string path = program.ring_path();
    const bool is_said = write(said[1], &child, sizeof child) > 0 &&
                         write(said[1], path.c_str(), path.size() + 1) > 0;
    pause();
    return is_said ? 0 : 1;
  });
  std::array<char, 512> path{};
  EXPECT_EQ(read(said[0], &job.child, sizeof job.child), static_cast<ssize_t>(sizeof job.child));
  EXPECT_GT(read(said[0], path.data(), path.size()), 0);
  job.path = path.data();
  close(said[0]);
  close(said[1]);
  return job;
}

TEST_F(Fork, DoesNotKeepTheRingAlive) {
  const Job job = start_job(directory());
  const auto state = [&job] {
    const auto ring = trace::RingFile::open(job.path);
    return trace::writer_state(job.path, ring->header());
  };

  EXPECT_EQ(state(), WriterState::kAlive);
  kill(job.parent, SIGKILL);
  EXPECT_EQ(waitpid(job.parent, nullptr, 0), job.parent);
  EXPECT_EQ(kill(job.child, 0), 0);  // It lives on.
  EXPECT_EQ(state(), WriterState::kDead);
  kill(job.child, SIGKILL);
}

TEST_F(Fork, ThatIsAskedForToLookIsNoOtherReasonToEnd) {
  // A child that looks for rings opens the parent's and closes it; locks must outlive that.
  const std::string path = program().ring_path();
  EXPECT_EQ(in_child([&] {
              EXPECT_THAT(trace::list_rings(directory()), IsOk());
              trace::reap_rings(directory());
              return 0;
            }),
            0);
  EXPECT_EQ(in_child([&] {
              auto header = program().recorder()->header();
              header.process.start_ticks = 0;  // Only the lock can tell.
              EXPECT_EQ(trace::writer_state(path, header), WriterState::kAlive);
              return 0;
            }),
            0);
}

/// The program under a lock, as a device's allocator is: threads take turns.
TEST_F(Fork, InTheMiddleOfOtherThreadsLeavesTheRingToThem) {
  constexpr int kThreads = 3;
  constexpr int kForks = 30;
  std::mutex lock;
  std::atomic<bool> is_over = false;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (!is_over) {
        const std::lock_guard held(lock);
        program().step();
      }
    });
  }
  for (int i = 0; i < kForks; ++i) {
    // Without the lock: a child may find the books half written, and only asks the recorder.
    const pid_t child = i % 2 == 0 ? fork() : plain_fork();
    if (child == 0) {
      program().recorder()->mark("child", MarkKind::kPoint);
      program().recorder()->stop("child");
      program().recorder()->device_memory({7, 7}, 7777);
      _exit(program().recorder()->is_recording() ? 1 : 0);
    }
    EXPECT_EQ(wait_for(child), 0);
  }
  is_over = true;
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_EQ(program().recorder()->header().state, trace::TraceState::kRecording);
  const auto ring = trace::RingFile::open(program().ring_path());
  ASSERT_THAT(ring, IsOk());
  auto reader = trace::RingReader::open(ring->bytes());
  ASSERT_THAT(reader, IsOk());
  while (const auto record = reader->next()) {
    EXPECT_NE(record->kind, trace::RecordKind::kMark);
    EXPECT_FALSE(record->kind == trace::RecordKind::kDeviceMemory && record->other == 7777);
  }
  EXPECT_EQ(reader->counts().damaged, 0U);
  const auto back = read_ring(program().ring_path(), false);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(heap_at_end(*back), heap_text(program().policy()));
}

}  // namespace
}  // namespace fragscope::recorder::test
