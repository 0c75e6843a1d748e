// SPDX-License-Identifier: Apache-2.0
// A record costs no allocation on the heap and no system call, and neither does a keyframe. The
// kernel itself ends a child that makes one. A program of its own, since it counts every
// allocation.
#include "allocator/policy/device/simulated_device.hpp"
#include "allocator/recorder/process_recorder.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "tests/support/heap_counter.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace fragscope::recorder::test {
namespace {

using fragscope::test::heap_allocations;

/// From now on this thread is ended by any system call but exit_group.
bool forbid_system_calls() {
  std::array<sock_filter, 4> rules = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  }};
  const sock_fprog program{static_cast<unsigned short>(rules.size()), rules.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

constexpr std::uint64_t kCapacity = 4096;

/// A recorder with a heap to record of.
class Recorded {
 public:
  explicit Recorded(const std::string& directory)
      : recorders_(options(directory))
      , recorder_(recorders_.of({0, {}, "Simulated", 0}))
      , policy_(device_, streams_, {}, recorder_) {
    recorder_->watch(&policy_);
    // One block of each kind of a heap that has reached its size.
    for (std::uint64_t size = 512; size <= 8192; size += 512)
      live_.push_back(policy_.allocate(size, size % 3));
    recorder_->mark("begin", MarkKind::kBegin);
  }

  /// Every kind of record, until the ring came round several times; keyframes come by themselves.
  void record_everything(std::uint64_t records) {
    const std::uint64_t end = recorder_->header().written + records;
    const policy::Block& block = *live_.front();
    while (recorder_->header().written < end) {
      const FrameText frames[] = {{"step", "train.py", ++line_ % 200}, {"main", "train.py", 7}};
      recorder_->set_stack(recorder_->intern_stack(frames));
      recorder_->on_free_requested(block);
      recorder_->on_free_completed(block);
      recorder_->on_segment_alloc(block);
      recorder_->on_split(block, block);
      recorder_->on_merge(block, block.address, block.size);
      recorder_->on_segment_freed(block);
      recorder_->on_record_stream(block, line_ % 5);
      recorder_->on_retry(1024, line_ % 7);
      recorder_->on_cache_release(1, 1, {0, line_ % 3});
      recorder_->on_limit(4096);
      recorder_->on_out_of_memory(policy_.failure(), 1, {0, line_ % 3});
      for (const policy::Block* live : live_)
        recorder_->on_alloc(*live);
      recorder_->mark("step", MarkKind::kPoint);
      MarkLog::of_process().say("forward", MarkKind::kBegin, MarkSource::kAnnotation);
      recorder_->take_marks();
      recorder_->settings("expandable_segments:True");
      recorder_->device_memory({1, 2}, 3);
      recorder_->snapshot_taken(4);
      recorder_->keyframe();
    }
  }
  [[nodiscard]] const DeviceRecorder& recorder() const { return *recorder_; }

 private:
  static RecorderOptions options(const std::string& directory) {
    RecorderOptions options;
    options.directory = directory;
    options.record_capacity = kCapacity;
    return options;
  }

  policy::SimulatedDevice device_{std::uint64_t{1} << 30};
  policy::SimulatedStreams streams_;
  ProcessRecorder recorders_;
  DeviceRecorder* recorder_;
  policy::CachingPolicy policy_;
  std::vector<policy::Block*> live_;
  std::uint32_t line_ = 0;
};

using RecordPath = RecorderTest;

TEST_F(RecordPath, AllocatesNothingOnTheHeap) {
  Recorded recorded(directory());
  const std::size_t before = heap_allocations();
  recorded.record_everything(5 * kCapacity);
  EXPECT_EQ(heap_allocations(), before);
}

TEST_F(RecordPath, AnAllocationOnTheHeapWouldBeSeen) {
  const std::size_t before = heap_allocations();
  const std::vector<int> some(10);
  EXPECT_EQ(heap_allocations(), before + 1);
}

TEST_F(RecordPath, MakesNoSystemCall) {
  const int status = in_child([&] {
    Recorded own(directory());
    own.record_everything(10);  // The thread's id is asked for once.
    if (!forbid_system_calls()) return kNotHere;
    own.record_everything(5 * kCapacity);
    _exit(own.recorder().header().written > 5 * kCapacity ? 0 : 1);
  });
  if (is_not_here(status)) GTEST_SKIP() << "no filters for system calls here";
  EXPECT_EQ(status, 0);
}

TEST_F(RecordPath, ASystemCallWouldBeSeen) {
  const int status = in_child([&] {
    if (!forbid_system_calls()) return kNotHere;
    _exit(static_cast<int>(syscall(SYS_getppid)) > 0 ? 0 : 1);
  });
  if (is_not_here(status)) GTEST_SKIP() << "no filters for system calls here";
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSYS);
}

}  // namespace
}  // namespace fragscope::recorder::test
