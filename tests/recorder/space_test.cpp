// SPDX-License-Identifier: Apache-2.0
// Where a ring cannot be had, or only a small one: the job goes on, says so once, and leaves the
// reason where there is room for two pages. File systems of any size are mounted for a child alone.
#include "tests/recorder/recorded_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "tests/support/result_matchers.hpp"

#include <gtest/gtest.h>

#include <grp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

namespace fragscope::recorder::test {
namespace {

using fragscope::test::IsOk;

constexpr uid_t kNobody = 65534;

std::uint64_t free_bytes(const std::string& directory) {
  struct statvfs status {};
  EXPECT_EQ(statvfs(directory.c_str(), &status), 0);
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

/// Takes what is free, but for `rest` bytes.
void fill(const std::string& directory, std::uint64_t rest) {
  const std::vector<char> page(4096, 'x');
  std::ofstream file(directory + "/other");
  while (file && free_bytes(directory) > rest) {
    file.write(page.data(), static_cast<std::streamsize>(page.size()));
    file.flush();
  }
}

/// A job without a ring: it runs as ever, and says once why it is not recorded.
void expect_unrecorded(const std::string& directory, const std::string& why) {
  const StandardError printed;
  RecordedProgram program(3, directory);
  EXPECT_EQ(program.recorder(), nullptr);
  program.run(500);
  EXPECT_GT(program.policy().statistics().num_device_alloc, 0);
  EXPECT_EQ(program.recorders().of({1, {}, "Another", 0}), nullptr);
  const std::string text = printed.text();
  EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  EXPECT_NE(text.find("device 0 is not recorded: "), std::string::npos) << text;
  EXPECT_NE(text.find(why), std::string::npos) << text;
  EXPECT_NE(program.recorders().reason().find(why), std::string::npos);
}

/// A job with a ring, which shows its heap.
std::uint64_t expect_recorded(const std::string& directory) {
  const StandardError printed;
  RecordedProgram program(3, directory, {std::uint64_t{1} << 18, std::uint64_t{4} << 20});
  if (program.recorder() == nullptr) {
    ADD_FAILURE() << program.recorders().reason();
    return 0;
  }
  program.run(3000);
  const auto back = read_ring(program.ring_path(), false);
  EXPECT_THAT(back, IsOk());
  EXPECT_EQ(heap_at_end(*back), heap_text(program.policy()));
  EXPECT_EQ(printed.text(), "");
  return program.recorder()->header().record_capacity;
}

class Space : public RecorderTest {
 protected:
  /// Runs `body` in a child with a file system of that size in the directory.
  template <class Body>
  void with_file_system(const std::string& size, Body body) {
    const int status = in_child([&] {
      if (!unshare_mounts()) return kNotHere;
      const std::string options = "size=" + size;
      if (mount("tmpfs", directory().c_str(), "tmpfs", 0, options.c_str()) != 0) return kNotHere;
      body();
      return 0;
    });
    if (is_not_here(status)) GTEST_SKIP() << "no mounts of one's own here";
    EXPECT_EQ(status, 0);
  }

  /// Runs `body` as a user who owns nothing.
  template <class Body>
  void as_nobody(Body body) {
    const int status = in_child([&] {
      const bool is_nobody = geteuid() != 0 || (setgroups(0, nullptr) == 0 &&
                                                setgid(kNobody) == 0 && setuid(kNobody) == 0);
      if (!is_nobody) return kNotHere;
      body();
      return 0;
    });
    if (is_not_here(status)) GTEST_SKIP() << "no other user here";
    EXPECT_EQ(status, 0);
  }
};

TEST_F(Space, TooSmallForAnyRingHasTheReasonInTwoPages) {
  with_file_system("1m", [&] {
    expect_unrecorded(directory(), "an eighth of the free space at most");
    const auto rings = trace::list_rings(directory());
    ASSERT_THAT(rings, IsOk());
    ASSERT_EQ(rings->size(), 2U);  // One for each device.
    for (const trace::RingEntry& ring : *rings) {
      EXPECT_EQ(ring.bytes, 8192U);
      ASSERT_TRUE(ring.header) << ring.problem;
      EXPECT_EQ(ring.header->state, trace::TraceState::kUnrecorded);
      EXPECT_NE(std::string(ring.header->reason.data()).find("an eighth"), std::string::npos);
    }
  });
}

TEST_F(Space, OfTwoPagesIsEnoughForTheReason) {
  with_file_system("256k", [&] {
    fill(directory(), 8192);
    ASSERT_EQ(free_bytes(directory()), 8192U);
    const StandardError printed;
    RecordedProgram program(3, directory());
    program.run(100);
    const auto rings = trace::list_rings(directory());
    ASSERT_THAT(rings, IsOk());
    ASSERT_EQ(rings->size(), 1U);
    EXPECT_TRUE(rings->front().header);
  });
}

TEST_F(Space, ThatIsFullLeavesNothingBehind) {
  with_file_system("256k", [&] {
    fill(directory(), 0);
    expect_unrecorded(directory(), "an eighth of the free space at most");
    const auto rings = trace::list_rings(directory());
    ASSERT_THAT(rings, IsOk());
    EXPECT_EQ(rings->size(), 0U);
  });
}

TEST_F(Space, ForLessHalvesTheRingAndNeverTakesMoreThanAnEighth) {
  for (const char* size : {"3m", "5m", "16m", "64m", "200m"}) {
    with_file_system(size, [&] {
      const std::uint64_t before = free_bytes(directory());
      const std::uint64_t capacity = expect_recorded(directory());
      EXPECT_GE(capacity, 4096U) << size;
      const auto rings = trace::list_rings(directory());
      ASSERT_THAT(rings, IsOk());
      ASSERT_EQ(rings->size(), 1U);
      EXPECT_LE(rings->front().bytes, before / 8) << size;
      // Not smaller than need be.
      EXPECT_TRUE(capacity == std::uint64_t{1} << 18 || 2 * rings->front().bytes > before / 8);
      EXPECT_GE(free_bytes(directory()), before - before / 8);
    });
  }
}

TEST_F(Space, WithoutABoundHoldsAWholeRing) {
  with_file_system("0", [&] { EXPECT_EQ(expect_recorded(directory()), std::uint64_t{1} << 18); });
}

TEST_F(Space, ThatOthersFillLaterWasTakenBefore) {
  with_file_system("4m", [&] {
    RecordedProgram program(3, directory(), {.records = 4096});
    ASSERT_NE(program.recorder(), nullptr);
    fill(directory(), 0);
    program.run(6000);  // All of the ring is written.
    EXPECT_GT(program.recorder()->header().written, 4096U);
    const auto back = read_ring(program.ring_path(), false);
    ASSERT_THAT(back, IsOk());
    EXPECT_EQ(heap_at_end(*back), heap_text(program.policy()));
  });
}

// The kernel ends a process that makes a file larger than it may.
TEST_F(Space, BeyondTheLimitOfFilesDoesNotEndTheJob) {
  const int status = in_child([&] {
    const rlimit small{std::uint64_t{1} << 20, std::uint64_t{1} << 20};
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) return kNotHere;
    std::signal(SIGXFSZ, SIG_DFL);
    EXPECT_LT(expect_recorded(directory()), std::uint64_t{1} << 14);
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_FSIZE, &none) != 0) return kNotHere;
    ProcessRecorder recorders(recorder_options(directory()));
    EXPECT_EQ(recorders.of({0, {}, "Simulated", 0}), nullptr);
    EXPECT_NE(recorders.reason(), "");
    return 0;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Space, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(chmod(directory().c_str(), 0755), 0);
  as_nobody([&] { expect_unrecorded(directory(), "Permission denied"); });
}

TEST_F(Space, ThatIsMissingOrAFileIsRefused) {
  expect_unrecorded(directory() + "/missing", "No such file or directory");
  std::ofstream(directory() + "/file") << "x";
  expect_unrecorded(directory() + "/file", "Not a directory");
  expect_unrecorded(std::string(5000, 'x'), "File name too long");
}

TEST_F(Space, ThatIsReadOnlyIsRefused) {
  with_file_system("64m", [&] {
    ASSERT_EQ(mount("none", directory().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    expect_unrecorded(directory(), "Read-only file system");
  });
}

TEST_F(Space, OfDescriptorsMayBeUsedUp) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const int status = in_child([&] {
    const StandardError printed;
    const rlimit few{0, 0};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) return kNotHere;
    ProcessRecorder recorders(recorder_options(directory()));
    EXPECT_EQ(recorders.of({0, {}, "Simulated", 0}), nullptr);
    EXPECT_NE(recorders.reason().find("Too many open files"), std::string::npos)
        << recorders.reason();
    return 0;
  });
  EXPECT_EQ(status, 0);
#else
  GTEST_SKIP() << "a sanitizer needs descriptors";
#endif
}

TEST_F(Space, OfAddressesMayBeUsedUp) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const int status = in_child([&] {
    const StandardError printed;
    const rlimit few{std::uint64_t{1} << 20, std::uint64_t{1} << 20};
    if (setrlimit(RLIMIT_AS, &few) != 0) return kNotHere;
    ProcessRecorder recorders(recorder_options(directory()));
    EXPECT_EQ(recorders.of({0, {}, "Simulated", 0}), nullptr);
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(directory()));  // No ring that nobody could use.
#else
  GTEST_SKIP() << "a sanitizer needs the addresses";
#endif
}

}  // namespace
}  // namespace fragscope::recorder::test
