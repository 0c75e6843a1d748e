// SPDX-License-Identifier: Apache-2.0
// Several threads at once on one machine, as PyTorch's autograd uses it.
#include "virtual_cuda/core/call.hpp"
#include "virtual_cuda/core/control.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace fragscope::virtual_cuda {
namespace {

Status allocate_and_release(std::uint64_t size_bytes) {
  std::uint64_t begin = 0;
  const Status got = locked_call("allocate", [&](Call& call) -> Status {
    MemoryEntry wanted;
    wanted.range.size_bytes = size_bytes;
    return call.machine.allocations().allocate(call.device(), wanted, &begin);
  });
  if (got != Status::kSuccess) return got;
  return locked_call("release", [&](Call& call) -> Status {
    return call.machine.allocations().release(call.device(),
                                              *call.machine.memory().find_begin(begin));
  });
}

class ProgramTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(Machine::instance().status(), Status::kSuccess); }
};

TEST_F(ProgramTest, ThreadsShareTheBooks) {
  const std::uint64_t before = fragscope_vc_used_bytes(0);
  std::vector<std::thread> threads;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    threads.emplace_back([i] {
      for (int step = 0; step < 500; ++step) {
        EXPECT_EQ(allocate_and_release(i * kPageBytes), Status::kSuccess);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_EQ(fragscope_vc_used_bytes(0), before);
}

// PyTorch's allocator calls us under its own lock, and a callback may want that lock: so nothing of
// the program runs while ours is held. Here the callback calls us back.
TEST_F(ProgramTest, CallbacksMayCallUs) {
  Status inner = Status::kUnknown;
  Work work{.kind = NodeKind::kHost};
  work.action = [&inner] { inner = allocate_and_release(kPageBytes); };

  const Status outer = locked_call(
      "enqueue", [&](Call& call) -> Status { return call.enqueue(nullptr, std::move(work)); });

  EXPECT_EQ(outer, Status::kSuccess);
  EXPECT_EQ(inner, Status::kSuccess);
}

TEST_F(ProgramTest, ExceptionsStayOnOurSide) {
  EXPECT_EQ(locked_call("throws", [](Call&) -> Status { throw std::bad_alloc(); }),
            Status::kOutOfMemory);
  // NOLINTNEXTLINE(bugprone-std-exception-baseclass): what is no exception is held back, too
  EXPECT_EQ(locked_call("throws", [](Call&) -> Status { throw 1; }), Status::kUnknown);
}

TEST_F(ProgramTest, TheControlFunctionsRefuseNonsense) {
  EXPECT_EQ(fragscope_vc_fail("nothing", 1, 0), -1);
  EXPECT_EQ(fragscope_vc_fail("malloc", 0, 0), -1);
  EXPECT_EQ(fragscope_vc_set_neighbour(99, 1), -1);
  EXPECT_EQ(fragscope_vc_hold_stream(reinterpret_cast<void*>(12345)), -1);
  EXPECT_EQ(fragscope_vc_total_bytes(99), 0U);
  EXPECT_STREQ(fragscope_vc_check_options("gpus=1"), nullptr);
  EXPECT_STRNE(fragscope_vc_check_options("gpus=x"), nullptr);
}

TEST_F(ProgramTest, AFaultHitsTheNextCall) {
  ASSERT_EQ(fragscope_vc_fail("malloc", 1, 0), 0);

  EXPECT_EQ(allocate_and_release(kPageBytes), Status::kOutOfMemory);
  EXPECT_EQ(allocate_and_release(kPageBytes), Status::kSuccess);
}

}  // namespace
}  // namespace fragscope::virtual_cuda
