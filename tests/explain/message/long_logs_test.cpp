// SPDX-License-Identifier: Apache-2.0
// Logs that are longer than what is held of them at a time: the reader moves along in chunks of 4
// MiB and keeps 64 KiB around what it scans. Messages at its borders must read as anywhere else.
#include "tests/explain/message/sample_messages.hpp"
#include "tests/support/temporary_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::explain::test {
namespace {

constexpr std::size_t kChunk = std::size_t{4} << 20;
constexpr std::size_t kKept = std::size_t{64} << 10;

/// The messages of a log in a file, since a text in memory is not read in chunks.
std::vector<Message> messages_of_file(std::string_view log) {
  const fragscope::test::TemporaryFile file(log);
  auto messages = read_messages(file.path());
  EXPECT_TRUE(messages.has_value());
  return messages ? std::move(*messages) : std::vector<Message>{};
}

/// Lines of 64 bytes, `size` bytes in all.
std::string filler(std::size_t size) {
  const std::string line = "step 000 of a long run, loss 0.125, nothing to be seen in this.\n";
  std::string text;
  text.reserve(size + line.size());
  while (text.size() < size)
    text += line;
  text.resize(size);
  if (!text.empty()) text.back() = '\n';
  return text;
}

std::uint64_t lines_of(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

// What is scanned at first ends 64 KiB in front of a full buffer of 4 MiB and three times 64 KiB.
TEST(LongLogs, MessageAcrossTheEndOfAChunkIsReadOnce) {
  for (const std::size_t border :
       {kChunk, kChunk + kKept, kChunk + 2 * kKept, kChunk + 3 * kKept}) {
    for (std::size_t in_front = 0; in_front <= k22.size() + 8; in_front += 67) {
      const std::string front = filler(border - in_front);
      const auto messages = messages_of_file(front + std::string(k22) + "\n" + filler(1000));
      ASSERT_EQ(messages.size(), 1U) << border << " - " << in_front;
      EXPECT_EQ(described(messages[0]), described(k22));
      EXPECT_EQ(messages[0].line, lines_of(front) + 1);
      EXPECT_EQ(messages[0].count, 1U);
    }
  }
}

TEST(LongLogs, PhraseAcrossTheEndOfAChunkIsFoundAtEveryByte) {
  const std::size_t phrase = k14.find("out of memory");
  for (std::size_t inside = 0; inside <= 14; ++inside) {
    const std::string front = filler(kChunk + 2 * kKept - phrase - inside);
    const auto messages = messages_of_file(front + std::string(k14) + "\n" + filler(200000));
    ASSERT_EQ(messages.size(), 1U) << inside;
    EXPECT_EQ(described(messages[0]), described(k14));
    EXPECT_EQ(messages[0].line, lines_of(front) + 1);
  }
}

TEST(LongLogs, LastLineWithoutLineEndIsRead) {
  const std::string front = filler(kChunk + 5 * kKept);
  const auto messages = messages_of_file(front + std::string(k10));
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(described(messages[0]), described(k10));
}

TEST(LongLogs, RepeatsInDifferentChunksAreCounted) {
  std::string log;
  for (int i = 0; i < 3; ++i)
    log += filler(kChunk) + std::string(k26) + "\n";
  const auto messages = messages_of_file(log);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].count, 3U);
  EXPECT_EQ(messages[0].line, kChunk / 64 + 1);
}

// Of such a line only the part around a phrase is held.
TEST(LongLogs, LineLongerThanAChunkKeepsItsMessage) {
  const std::string log =
      std::string(kChunk + 10 * kKept, 'x') + " " + std::string(k14) + std::string(kChunk, 'y');
  const auto messages = messages_of_file(log);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(described(messages[0]), described(k14));
  EXPECT_EQ(messages[0].line, 1U);
}

}  // namespace
}  // namespace fragscope::explain::test
