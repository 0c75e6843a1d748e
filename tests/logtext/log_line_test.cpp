// SPDX-License-Identifier: Apache-2.0
// Prefixes that loggers, launchers and containers put in front of a message.
#include "analyzer/logtext/log_line.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace fragscope::logtext {
namespace {

constexpr std::string_view kMessage = "CUDA out of memory. Tried to allocate 2.00 GiB";

/// `prefix` in front of the message: the message is found, and who wrote it, and when.
void expect_prefix(std::string_view prefix,
                   std::string_view process,
                   std::string_view time_text = {}) {
  const std::string text = std::string(prefix) + std::string(kMessage);
  const LogLine line = read_line(text, 7);
  EXPECT_EQ(line.number, 7U);
  EXPECT_EQ(line.message, kMessage) << prefix;
  EXPECT_EQ(line.process, process) << prefix;
  EXPECT_EQ(line.time_text, time_text) << prefix;
}

TEST(LogLine, HasNoPrefixInABareLine) {
  expect_prefix("", "");
  EXPECT_EQ(read_line("", 1).message, "");
}

TEST(LogLine, ReadsPythonLoggers) {
  expect_prefix("2025-01-31 10:00:00,123 - ERROR - ", "", "2025-01-31 10:00:00,123");
  expect_prefix("2025-01-31 10:00:00 [ERROR] [trainer.py:88] ", "", "2025-01-31 10:00:00");
  expect_prefix("[2025-01-31 10:00:00,123] [INFO] [engine.py:12] ", "", "2025-01-31 10:00:00,123");
  expect_prefix(
      "2025-01-31 10:00:00.123 | ERROR    | app.run:step:42 - ", "", "2025-01-31 10:00:00.123");
  expect_prefix("[2025-01-31, 10:00:00 UTC] {job.py:93} INFO - ", "", "2025-01-31, 10:00:00 UTC");
}

TEST(LogLine, ReadsVllm) {
  expect_prefix("ERROR 01-31 10:00:00 [core.py:58] ", "", "01-31 10:00:00");
  expect_prefix("(EngineCore_0 pid=12) ERROR 01-31 10:00:00 core.py:58] ",
                "EngineCore_0 pid=12",
                "01-31 10:00:00");
  expect_prefix("(RayWorkerWrapper pid=7, ip=10.0.0.1) ", "RayWorkerWrapper pid=7, ip=10.0.0.1");
}

TEST(LogLine, ReadsTheRanksOfSglang) {
  expect_prefix("[2025-01-31 10:00:00 DP0 TP3] ", "DP0 TP3", "2025-01-31 10:00:00");
  expect_prefix("[2025-01-31 10:00:00] ", "", "2025-01-31 10:00:00");
  expect_prefix("[2025-01-31 10:00:00 ATTN_TP1] ", "ATTN_TP1", "2025-01-31 10:00:00");
}

TEST(LogLine, ReadsRanksOfLaunchers) {
  expect_prefix("[rank3]: ", "rank3");
  expect_prefix("[rank 3] ", "rank 3");
  expect_prefix("rank3: ", "rank3");
  expect_prefix("[default0]:[rank0]: ", "default0");
  expect_prefix("[1]: ", "1");
}

TEST(LogLine, ReadsContainersAndTheSystemLog) {
  expect_prefix("server-1  | ", "server-1");
  expect_prefix("2025-01-31T10:00:00.123456789Z stdout F ", "", "2025-01-31T10:00:00.123456789Z");
  expect_prefix("Jan 31 10:00:00 node7 python[4242]: ", "python[4242]", "Jan 31 10:00:00");
}

TEST(LogLine, ReadsGlog) {
  expect_prefix("E0131 10:00:00.123456 4242 allocator.cc:12] ", "", "E0131 10:00:00.123456");
  expect_prefix("E0131 10:00:00.123456    4242 allocator.cc:12] ", "", "E0131 10:00:00.123456");
}

TEST(LogLine, ReadsTheRunningTimeOfLlamaCpp) {
  const LogLine line = read_line("0.12.345.678 E ggml: failed", 1);
  ASSERT_TRUE(line.time);
  EXPECT_EQ(line.time->ms, 12'345);
  EXPECT_EQ(line.time_text, "0.12.345.678");
}

TEST(LogLine, ReadsWhatGrepAndQuotationsPutInFront) {
  expect_prefix("1234:", "");
  expect_prefix("> ", "");
  expect_prefix("12 [rank0]: ", "rank0");
}

TEST(LogLine, TakesTheFirstProcessAndTime) {
  expect_prefix(
      "node-1 | [rank2]: 2025-01-31 10:00:00 01-31 10:00:01 ", "node-1", "2025-01-31 10:00:00");
}

TEST(LogLine, LeavesTextThatOnlyLooksLikeAPrefix) {
  for (const std::string_view text : {"(see pid 12) the process",
                                      "ranked first",
                                      "information is missing",
                                      "a | b",
                                      "Jan wrote this",
                                      "[2025-01-31 notes] of the day"}) {
    EXPECT_EQ(read_line(text, 1).process, text == "a | b" ? "a" : "") << text;
  }
  EXPECT_EQ(read_line("ERRORS were found", 1).message, "ERRORS were found");
}

}  // namespace
}  // namespace fragscope::logtext
