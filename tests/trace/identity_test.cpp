// SPDX-License-Identifier: Apache-2.0
// A pid comes again, and a reader that trusted it alone would take another program for the job
// that recorded. The start of the process, which the system tells to anybody, sets them apart.
#include "trace/process/identity.hpp"

#include "trace/ring/ring_file.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace fragscope::trace::test {
namespace {

/// What a process says of itself, and what /proc says of it while it is there.
struct Seen {
  ProcessIdentity identity;
  std::uint64_t start_ticks_outside = 0;
};

/// Field 22 of /proc/PID/stat, read with a reader of its own.
std::uint64_t start_ticks_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream behind_name(line.substr(line.rfind(')') + 1));
  std::string word;
  for (int field = 3; field <= 22; ++field)
    behind_name >> word;
  return std::strtoull(word.c_str(), nullptr, 10);
}

/// A child with this pid, or with any for 0; as fork. -1 with EPERM where a pid cannot be chosen.
pid_t fork_as(pid_t pid) {
  if (pid == 0) return fork();
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uint64_t>(&pid);
  arguments.set_tid_size = 1;
  return static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof(arguments)));
}

/// Has a child tell who it is; -1 if there could be none.
pid_t ask_child(pid_t pid, const char* name, Seen& seen) {
  std::array<int, 2> answer{};
  std::array<int, 2> leave{};
  if (pipe(answer.data()) != 0 || pipe(leave.data()) != 0) return -1;
  const pid_t child = fork_as(pid);
  if (child == 0) {
    prctl(PR_SET_NAME, name);
    const ProcessIdentity identity = this_process();
    char byte = 0;
    close(leave[1]);
    _exit(write(answer[1], &identity, sizeof(identity)) == sizeof(identity) &&
                  read(leave[0], &byte, 1) == 0
              ? 0
              : 1);
  }
  if (child > 0) {
    EXPECT_EQ(read(answer[0], &seen.identity, sizeof(seen.identity)),
              static_cast<ssize_t>(sizeof(seen.identity)));
    seen.start_ticks_outside = start_ticks_of(child);
  }
  const int error = errno;
  for (const int end : {answer[0], answer[1], leave[0], leave[1]})
    close(end);
  int status = 0;
  if (child > 0) {
    EXPECT_EQ(waitpid(child, &status, 0), child);
  }
  EXPECT_EQ(status, 0);
  errno = error;
  return child;
}

TEST(ProcessIdentity, IsWhatTheSystemTellsOthers) {
  for (const char* name : {"job", "a) R 1 (b", ") ) )", "((("}) {
    Seen seen;
    const pid_t child = ask_child(0, name, seen);
    ASSERT_GT(child, 0);
    EXPECT_EQ(seen.identity.pid, static_cast<std::uint32_t>(child));
    EXPECT_GT(seen.identity.start_ticks, 0U);
    EXPECT_EQ(seen.identity.start_ticks, seen.start_ticks_outside);
  }
}

TEST(ProcessIdentity, OfAPidThatComesAgainHasAnotherStart) {
  Seen first;
  const pid_t pid = ask_child(0, "first", first);
  ASSERT_GT(pid, 0);
  const timespec three_ticks{0, 30'000'000};
  nanosleep(&three_ticks, nullptr);
  Seen second;
  const pid_t again = ask_child(pid, "second", second);
  if (again < 0) GTEST_SKIP() << "no child with a chosen pid here: " << std::strerror(errno);

  EXPECT_EQ(first.identity.pid, second.identity.pid);
  EXPECT_EQ(first.identity.boot_id, second.identity.boot_id);
  EXPECT_GT(second.identity.start_ticks, first.identity.start_ticks);
  EXPECT_NE(first.identity.random_id, second.identity.random_id);
}

TEST(ProcessIdentity, StaysTheSameButForTheRecordingsOwnId) {
  const ProcessIdentity first = this_process();
  const ProcessIdentity second = this_process();
  EXPECT_EQ(first.pid, second.pid);
  EXPECT_EQ(first.start_ticks, second.start_ticks);
  EXPECT_EQ(first.boot_id, second.boot_id);
  EXPECT_NE(first.boot_id, (std::array<char, 16>{}));
  EXPECT_NE(first.random_id, second.random_id);
}

}  // namespace
}  // namespace fragscope::trace::test
