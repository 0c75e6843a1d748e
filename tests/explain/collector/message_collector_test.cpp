// SPDX-License-Identifier: Apache-2.0
// Messages as logs carry them: behind prefixes, between other writers' lines, again and again.
#include "analyzer/explain/collector/message_collector.hpp"

#include "analyzer/explain/message/message_reader.hpp"
#include "analyzer/logtext/phrase_scanner.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace fragscope::explain {
namespace {

using ::testing::SizeIs;

std::string message_of(int gib, int device = 0) {
  return fmt::format(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}.00 GiB. GPU {} has a total "
      "capacity of 79.25 GiB of which 0.50 GiB is free. 60.00 GiB allowed; Of the allocated memory "
      "58.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.",
      gib,
      device);
}

/// `text` broken after every `columns` bytes, each line with `prefix` in front.
std::string wrapped(std::string_view text, std::size_t columns, std::string_view prefix) {
  std::string lines;
  for (std::size_t at = 0; at < text.size(); at += columns)
    lines += fmt::format("{}{}\n", prefix, text.substr(at, columns));
  return lines;
}

TEST(MessageCollector, JoinsLinesThatRepeatAnyPrefix) {
  for (const char* prefix : {"",
                             "[rank3]: ",
                             "(Worker pid=7) ",
                             "worker-0: ",
                             "[pod/trainer-0/main] ",
                             "[1,3]<stderr>:",
                             "2025-01-31 10:00:00 - trainer - ERROR - ",
                             "2025-01-31 10:00:00.123 | ERROR    | app.run:step:42 - ",
                             "[2025-01-31, 10:00:00 UTC] {job.py:93} INFO - ",
                             "server-1  | "}) {
    // Widths at which the words that a message is found by are broken as well.
    for (const std::size_t columns : {29U, 34U, 40U, 61U, 80U}) {
      const auto messages = find_messages("before\n" + wrapped(message_of(2), columns, prefix));
      ASSERT_THAT(messages, SizeIs(1)) << prefix << columns;
      EXPECT_TRUE(messages[0].figures.limit && messages[0].figures.gap) << prefix << columns;
      EXPECT_FALSE(messages[0].cut_short) << prefix << columns;
    }
  }
}

TEST(MessageCollector, PassesOverAnUnnamedLineOfSomebodyElse) {
  const std::string text = message_of(2);
  const auto messages =
      find_messages("[rank0]: " + text.substr(0, 120) +
                    "\nheartbeat 17 sent, all is well\n[rank0]: " + text.substr(120) + "\n");
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_FALSE(messages[0].cut_short);
}

TEST(MessageCollector, TakesAnUnnamedLineWhereATerminalBrokeTheText) {
  const std::string text = message_of(2);
  const auto messages =
      find_messages("[rank0]: " + text.substr(0, 120) + "\n" + text.substr(120) + "\n");
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_FALSE(messages[0].cut_short);
}

TEST(MessageCollector, FindsBothMessagesOfAnOverlongLine) {
  const std::string filler(9000, 'x');
  const auto messages = find_messages("first\n" + filler + ' ' + message_of(2) + filler + ' ' +
                                      message_of(3) + filler);
  ASSERT_THAT(messages, SizeIs(2));
  EXPECT_EQ(messages[1].line, 2U);
}

TEST(MessageCollector, CountsTheSameFailureWhateverItsTimeStamp) {
  const auto messages = find_messages(
      "2025-01-31 10:00:00 RuntimeError: CUDA error: out of memory\n"
      "2025-01-31 10:00:07 RuntimeError: CUDA error: out of memory\n");
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].count, 2U);
}

TEST(MessageCollector, KeepsRanksThatFailWithoutFiguresApart) {
  EXPECT_THAT(find_messages("[rank0]: RuntimeError: CUDA error: out of memory\n"
                            "[rank1]: RuntimeError: CUDA error: out of memory\n"),
              SizeIs(2));
}

// 2,500 different ones: the first thousand, the last thousand, and how many are missing.
TEST(MessageCollector, KeepsBothEndsOfVeryMany) {
  std::string log;
  for (int i = 1; i <= 2500; ++i)
    log += message_of(i) + "\n";
  log += message_of(7) + "\n" + message_of(2400) + "\n";
  MessageCollector collector;
  const logtext::PhraseScanner scanner({message_phrases()});
  logtext::read_text(log, scanner, [&](const logtext::LineHit& hit) { collector.add(hit); });
  EXPECT_EQ(collector.dropped_count(), 500U);
  const std::vector<Message> messages = collector.take_messages();
  ASSERT_THAT(messages, SizeIs(2000));
  EXPECT_EQ(messages[0].line, 1U);
  EXPECT_EQ(messages[6].count, 2U);
  EXPECT_EQ(messages[1000].line, 1501U);
  EXPECT_EQ(messages[1899].count, 2U);
  EXPECT_EQ(messages[1999].line, 2500U);
}

}  // namespace
}  // namespace fragscope::explain
