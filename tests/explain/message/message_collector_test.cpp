// SPDX-License-Identifier: Apache-2.0
// Messages in the logs of others: behind prefixes, between the lines of other ranks, printed again.
#include "tests/explain/message/sample_messages.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::explain::test {
namespace {

/// The text in lines of at most `columns`, each behind `prefix`.
std::string behind(std::string_view prefix, std::string_view text, std::size_t columns = 1000) {
  std::string log;
  for (std::size_t at = 0; at < text.size(); at += columns)
    log += std::string(prefix) + std::string(text.substr(at, columns)) + "\n";
  return log;
}

struct Prefix {
  const char* name;
  const char* text;
  const char* process;
};

class PrefixedMessages : public ::testing::TestWithParam<Prefix> {};

TEST_P(PrefixedMessages, ReadTheSameOnOneLine) {
  const Message message = only("start\n" + behind(GetParam().text, k26) + "end\n");
  EXPECT_EQ(described(message), described(k26));
  EXPECT_EQ(message.process, GetParam().process);
  EXPECT_EQ(message.line, 2U);
}

TEST_P(PrefixedMessages, ReadTheSameBrokenByTheLogger) {
  for (const std::size_t columns : {90U, 100U, 111U, 140U}) {
    const Message message = only(behind(GetParam().text, k26, columns));
    EXPECT_EQ(described(message), described(k26)) << columns << " columns";
    EXPECT_EQ(message.count, 1U) << columns << " columns";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Prefixes,
    PrefixedMessages,
    ::testing::Values(Prefix{"none", "", ""},
                      Prefix{"ansi", "\x1b[31m\x1b[1m", ""},
                      Prefix{"ansi_spelt_out", "\\x1b[36m\\u001b[1m", ""},
                      Prefix{"vllm_engine",
                             "(EngineCore_DP0 pid=4242) ERROR 03-04 05:06:07 [core.py:700] ",
                             "EngineCore_DP0 pid=4242"},
                      Prefix{"ray",
                             "(RayWorkerWrapper pid=977, ip=10.0.0.2) ",
                             "RayWorkerWrapper pid=977, ip=10.0.0.2"},
                      Prefix{"torchrun", "[rank3]: ", "rank3"},
                      Prefix{"torchrun_tee", "[default1]:", "default1"},
                      Prefix{"compose", "inference-1  | ", "inference-1"},
                      Prefix{"quotation", "> ", ""},
                      Prefix{"kubernetes", "2026-03-04T05:06:07.891234567Z stderr F ", ""}),
    [](const auto& prefix) { return std::string(prefix.param.name); });

TEST(MessagesInLogs, AreReadBehindAnyLoggersPrefix) {
  for (const char* prefix : {"2026-03-04 05:06:07,891 - trainer - ERROR - ",
                             "2026-03-04 05:06:07.891 | ERROR    | app.run:step:42 - ",
                             "[2026-03-04 05:06:07 TP0] Scheduler hit an exception: ",
                             "E0304 05:06:07.891234 4242 runner.py:88] ",
                             "Mar  4 05:06:07 node7 python[4242]: ",
                             "ERROR:root:",
                             "{\"message\": \"",
                             "  File \"x.py\", line 3, in run  ",
                             "      3 ",
                             "| "}) {
    EXPECT_EQ(described(prefix + std::string(k26)), described(k26)) << prefix;
  }
}

// --- Escapes. ------------------------------------------------------------------------------------

TEST(EscapedMessages, InJsonAreRead) {
  std::string escaped(kAsync);
  for (std::size_t at = 0; (at = escaped.find('\n', at)) != std::string::npos;)
    escaped.replace(at, 1, "\\n");
  const Message message = only("{\"level\":\"error\",\"msg\":\"" + escaped + "\",\"rank\":0}");
  EXPECT_EQ(described(message), described(kAsync));
}

TEST(EscapedMessages, InRustDebugStringsAreRead) {
  const Message message =
      only("Error: WebserverFailed(ShardError(\"" + std::string(kMps) + "\\n\\t at x.rs\"))");
  EXPECT_EQ(described(message), described(kMps));
}

TEST(EscapedMessages, InAPythonReprAreRead) {
  EXPECT_EQ(described("OutOfMemoryError('" + std::string(k22.substr(k22.find("CUDA"))) + "')"),
            described(k22.substr(k22.find("CUDA"))));
}

// --- Several writers. ----------------------------------------------------------------------------

/// The texts broken into lines behind their prefixes, one line of each in turn.
std::string interleaved(const std::vector<std::pair<std::string, std::string_view>>& writers,
                        std::size_t columns) {
  std::string log;
  for (std::size_t at = 0; at < 2000; at += columns) {
    for (const auto& [prefix, text] : writers) {
      if (at < text.size()) log += prefix + std::string(text.substr(at, columns)) + "\n";
    }
  }
  return log;
}

TEST(InterleavedRanks, AreKeptApart) {
  const std::string log = interleaved({{"[rank0]: ", k14}, {"[rank1]: ", k22}}, 100);
  EXPECT_EQ(described(log), described(k14) + " | " + described(k22));
  const auto messages = find_messages(log);
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].process, "rank0");
  EXPECT_EQ(messages[1].process, "rank1");
}

TEST(InterleavedRanks, OfThreeWritersAreKeptApart) {
  const std::string log = interleaved(
      {{"(Worker pid=1) ", k10}, {"(Worker pid=2) ", k26}, {"(Worker pid=3) ", kNpu}}, 90);
  EXPECT_EQ(described(log), described(k10) + " | " + described(k26) + " | " + described(kNpu));
}

TEST(InterleavedRanks, OtherLinesInBetweenArePassedOver) {
  EXPECT_EQ(described("[rank0]: " + std::string(k14.substr(0, 90)) +
                      "\n[rank1]: step 5 of 10, loss 1.25\n[rank2]: 23.10 GiB in use\n[rank0]: " +
                      std::string(k14.substr(90)) + "\n"),
            described(k14));
}

// --- Repeats and neighbours. ---------------------------------------------------------------------

TEST(RepeatedMessages, AreOneReportWithACount) {
  const std::string log = "epoch 1\n" + std::string(k14) + "\nretrying\n" + std::string(k14) +
                          "\nERROR - " + std::string(k14) + "\n";
  const Message message = only(log);
  EXPECT_EQ(message.count, 3U);
  EXPECT_EQ(message.line, 2U) << "of its first appearance";
}

TEST(RepeatedMessages, WrappedAndWholeAreTheSame) {
  const Message message =
      only(behind("[rank0]: ", k22, 80) + "summary: " + std::string(k22) + "\n");
  EXPECT_EQ(message.count, 2U);
}

TEST(RepeatedMessages, WithOtherFiguresAreOthers) {
  std::string later(k14);
  later.replace(later.find("85.00"), 5, "75.00");
  EXPECT_EQ(find_messages(std::string(k14) + "\n" + later).size(), 2U);
}

TEST(RepeatedMessages, OfAnotherDeviceAreOthers) {
  std::string other(k14);
  other.replace(other.find("GPU 1"), 5, "GPU 0");
  EXPECT_EQ(find_messages(std::string(k14) + "\n" + other).size(), 2U);
}

TEST(NeighbouringMessages, OnOneLineAreBothRead) {
  EXPECT_EQ(described("{\"a\": \"" + std::string(k14) + "\", \"b\": \"" + std::string(k22) + "\"}"),
            described(k14) + " | " + described(k22));
  EXPECT_EQ(described(std::string(k10) + " " + std::string(k18)),
            described(k10) + " | " + described(k18));
}

// An attempt is followed by the failure that it led to.
TEST(NeighbouringMessages, AttemptAndFailureAreTwo) {
  EXPECT_EQ(described("[W304 05:06:07.891 CUDACachingAllocator.cpp:900] Warning: " +
                      std::string(kAllocationAttempt) + "\n" + std::string(k22)),
            described(kAllocationAttempt) + " | " + described(k22));
}

TEST(NeighbouringMessages, ChainedExceptionsAreTwoMessages) {
  EXPECT_EQ(described(std::string(k22) +
                      "\n\nDuring handling of the above exception, another exception occurred:\n\n"
                      "RuntimeError: CUDA error: out of memory\n"),
            described(k22) + " | cuda, driver, runtime or library; no figures");
}

// --- Lines. --------------------------------------------------------------------------------------

TEST(MessageLines, CountFromOneWithAnyLineEnd) {
  EXPECT_EQ(only(k14).line, 1U);
  EXPECT_EQ(only("\n\n\n" + std::string(k14)).line, 4U);
  EXPECT_EQ(only("a\r\nb\r\n" + std::string(k14) + "\r\n").line, 3U);
}

TEST(MessageLines, OfAWrappedMessageIsThatOfItsPhrase) {
  EXPECT_EQ(only("start\n" + behind("", k14, 70)).line, 2U);
}

TEST(MessageLines, CarryTheTimeAsPrinted) {
  const auto log = "2026-03-04 05:06:07,891 - trainer - ERROR - " + std::string(k14);
  EXPECT_EQ(only(log).time, "2026-03-04 05:06:07,891");
  EXPECT_EQ(only(k14).time, "");
}

TEST(MessageLines, KeepTheirTextOnOneLine) {
  EXPECT_EQ(only(behind("", kRejected, 70)).text.find('\n'), std::string::npos);
  EXPECT_EQ(only(kBeyond).text, kBeyond);
  EXPECT_EQ(only(k14).text, k14);
}

}  // namespace
}  // namespace fragscope::explain::test
