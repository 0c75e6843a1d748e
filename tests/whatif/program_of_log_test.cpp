// SPDX-License-Identifier: Apache-2.0
// The logs of RMM and STAlloc as programs, line by line.
#include "analyzer/whatif/program/program_of_log.hpp"

#include "analyzer/whatif/variant.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fragscope::whatif::test {
namespace {

using policy::kMiB;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kHeader = "Thread,Time,Action,Pointer,Size,Stream\n";

/// Its requests and frees in words: "a100/0" is 100 bytes on stream 0, "a100!" was refused, "f0" is
/// the free of slot 0.
std::vector<std::string> words(const Program& program) {
  std::vector<std::string> list;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::kAllocate) {
      list.push_back("a" + std::to_string(op.bytes) +
                     (op.failed ? "!" : "/" + std::to_string(program.streams[op.stream])));
    } else if (op.kind == OpKind::kFree) {
      list.push_back("f" + std::to_string(op.slot));
    } else if (op.kind == OpKind::kMark) {
      list.push_back(program.texts[op.bytes]);
    } else {
      list.emplace_back("?");
    }
  }
  return list;
}

Program of_rmm(const std::string& rows) {
  Result<Program> program = program_of_log(kHeader + rows, RequestLog::kRmm);
  EXPECT_TRUE(program) << program.error().message;
  return program ? *program : Program{};
}

std::string problem_of(const std::string& text, RequestLog log) {
  const Result<Program> program = program_of_log(text, log);
  return program ? "" : program.error().message;
}

TEST(RmmLog, IsKnownByItsHeader) {
  EXPECT_EQ(request_log(kHeader), RequestLog::kRmm);
  EXPECT_EQ(request_log("Thread,Time\n"), std::nullopt);
  EXPECT_EQ(request_log(""), std::nullopt);
}

TEST(RmmLog, HoldsRequestsFreesAndFailures) {
  const Program program = of_rmm(
      "1,09:00:00.000001,allocate,0x7f0000000000,100,0\n"
      "1,09:00:00.000002,allocate,0x7f0000000200,300,0x1\n"
      "1,09:00:00.000003,free,0x7f0000000000,100,0\n"
      "1,09:00:00.000004,allocate failure,(nil),5000,0\n");
  EXPECT_THAT(words(program), ElementsAre("a100/0", "a300/1", "f0", "a5000!"));
  EXPECT_FALSE(program.has_decisions);
  EXPECT_EQ(program.event_of(program.ops.back()), 3);
}

// RMM writes a stream as a pointer, in hexadecimal; its own replay reads it as a decimal number and
// stumbles.
TEST(RmmLog, ReadsStreamsAsPointers) {
  const Program program = of_rmm(
      "1,t,allocate,0x1000,100,0x55d0c8b4e1f0\n"
      "1,t,allocate,0x2000,100,55d0c8b4e1f0\n"
      "1,t,allocate,0x3000,100,(nil)\n");
  EXPECT_THAT(words(program), ElementsAre("a100/94355208856048", "a100/94355208856048", "a100/0"));
}

TEST(RmmLog, TakesAFreeByAnotherThreadOrStream) {
  const Program program = of_rmm(
      "1,t,allocate,0x1000,100,0\n"
      "2,t,free,0x1000,100,0\n"
      "1,t,allocate,0x1000,200,0\n"
      "1,t,free,0x1000,200,7\n");
  EXPECT_THAT(words(program), ElementsAre("a100/0", "f0", "a200/0", "f0"));
  EXPECT_THAT(program.doubts, Contains(StartsWith("1 frees on another stream")));
}

TEST(RmmLog, GoesOnWhereLinesAreMissing) {
  const Program program = of_rmm(
      "1,t,free,0x9000,100,0\n"
      "1,t,allocate,0x1000,100,0\n"
      "1,t,allocate,0x1000,200,0\n"
      "1,t,allocate,0x0,0,0\n");
  EXPECT_THAT(words(program), ElementsAre("a100/0", "f0", "a200/0"));
  EXPECT_THAT(program.doubts, Contains(StartsWith("1 frees of blocks that nobody had seen")));
  EXPECT_THAT(program.doubts, Contains(StartsWith("1 blocks were handed out again")));
  EXPECT_THAT(program.doubts, Contains(StartsWith("1 requests of nothing")));
}

TEST(RmmLog, LeavesOutALastLineThatIsCut) {
  const Program program = of_rmm("1,t,allocate,0x1000,100,0\r\n1,t,allocate,0x20");
  EXPECT_THAT(words(program), ElementsAre("a100/0"));
  EXPECT_THAT(program.doubts, Contains(HasSubstr("which is cut")));
}

TEST(RmmLog, NamesTheLineThatIsWrong) {
  const std::string start = kHeader + std::string("1,t,allocate,0x1000,100,0\n");
  for (const char* row : {"1,t,reallocate,0x1000,100,0",
                          "1,t,allocate,0x1000,-1,0",
                          "1,t,allocate,0x1000,100",
                          "1,t,allocate,where,100,0",
                          "1,t,allocate,0x1000,99999999999999999999,0"}) {
    SCOPED_TRACE(row);
    EXPECT_EQ(problem_of(start + row + "\n", RequestLog::kRmm),
              std::string("line 3: expected Thread,Time,Action,Pointer,Size,Stream, found \"") +
                  row + "\"");
  }
}

TEST(RmmLog, IsTriedUnderPyTorchsRules) {
  const Program program = of_rmm(
      "1,t,allocate,0x1000,104857600,0\n"
      "1,t,allocate,0x8000000,104857600,0\n"
      "1,t,free,0x1000,104857600,0\n"
      "1,t,allocate,0x1000,52428800,0\n");
  EXPECT_FALSE(recorded_variant(program));
  EXPECT_FALSE(run(program, recorded_variant_on(program, 200 * kMiB)).first_failure);
  const Outcome outcome = run(program, recorded_variant_on(program, 198 * kMiB));
  ASSERT_TRUE(outcome.first_failure);
  EXPECT_EQ(outcome.first_failure->op, 1U);
}

TEST(StallocLog, IsKnownByItsFirstLine) {
  EXPECT_EQ(request_log("1 0x7f1e41329c00 512 0\n"), RequestLog::kStalloc);
  EXPECT_EQ(request_log("Iteration Index : 0\n"), RequestLog::kStalloc);
  EXPECT_EQ(request_log("1 2 3\n"), std::nullopt);
  EXPECT_EQ(request_log("Error : out of memory\n"), std::nullopt);
}

TEST(StallocLog, HoldsRequestsFreesAndMarks) {
  const Result<Program> program = program_of_log(
      "1 0x7f0000000000 1048576 0\n"
      "Iteration Index : 0\n"
      "micro-batch : F\n"
      "module.layers.0.mlp->MoELayer Layer : F-start\n"
      "1 0x7f0000100000 512 0x55d0\n"
      "0 0x7f0000100000 512 0x55d0\n"
      "1 0 0 0\n",
      RequestLog::kStalloc);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_THAT(
      words(*program),
      ElementsAre("a1048576/0", "Iteration Index : 0", "micro-batch : F", "a512/21968", "f1"));
}

TEST(StallocLog, NamesTheLineThatIsWrong) {
  EXPECT_EQ(problem_of("1 0x1000 512 0\n1 0x2000 -5 0\n", RequestLog::kStalloc),
            "line 2: expected 0|1 POINTER SIZE STREAM or a mark, found \"1 0x2000 -5 0\"");
  EXPECT_THAT(problem_of("1 0x1000 512 0\n" + std::string(5000, 'x') + "\n", RequestLog::kStalloc),
              testing::SizeIs(testing::Lt(150U)));
}

}  // namespace
}  // namespace fragscope::whatif::test
