// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/collector/message_collector.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::explain {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// The bytes that print as `value` with two decimals of this unit.
Bounds printed(double value, int power) {
  return {static_cast<std::uint64_t>(std::ceil(std::ldexp(value - 0.005, power))),
          static_cast<std::uint64_t>(std::floor(std::ldexp(value + 0.005, power)))};
}

constexpr std::string_view kStart = "CUDA out of memory. Tried to allocate 1.75 GiB. ";
constexpr std::string_view kDevice =
    "GPU 0 has a total capacity of 23.69 GiB of which 85.00 MiB is free. ";
constexpr std::string_view kEnd =
    "Of the allocated memory 9.26 GiB is allocated by PyTorch, and 13.84 GiB is reserved by "
    "PyTorch "
    "but unallocated.";

Message only(const std::string& log) {
  const auto messages = find_messages(log);
  EXPECT_EQ(messages.size(), 1U) << log;
  return messages.empty() ? Message{} : messages.front();
}

void expect_main_figures(const Message& message) {
  EXPECT_EQ(message.device, 0);
  EXPECT_EQ(message.figures.request, printed(1.75, 30));
  EXPECT_EQ(message.figures.total, printed(23.69, 30));
  EXPECT_EQ(message.figures.free, printed(85, 20));
}

TEST(JoinedFacts, ReadsTheMisspeltMessageOf21) {
  const Message message = only(
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB. GPU 0 has a "
      "total capacty of 23.69 GiB of which 85.00 MiB is free. Including non-PyTorch memory, this "
      "process has 23.60 GiB memory in use. " +
      std::string(kEnd));

  expect_main_figures(message);
  EXPECT_EQ(message.figures.process, printed(23.60, 30));
  EXPECT_FALSE(message.figures.limit);
}

TEST(JoinedFacts, ReadsTheMessageOf22WithoutProcessLines) {
  const Message message = only(std::string(kStart) + std::string(kDevice) + std::string(kEnd));

  expect_main_figures(message);
  EXPECT_FALSE(message.figures.process);
  EXPECT_FALSE(message.figures.limit);
  EXPECT_EQ(message.line, 1U);
}

TEST(JoinedFacts, ReadsProcessLinesAndTheLimitOf26) {
  const Message message = only(
      "torch.OutOfMemoryError: " + std::string(kStart) + std::string(kDevice) +
      "Process 4711 has 2.50 GiB memory in use. Including non-PyTorch memory, this process has "
      "21.10 GiB memory in use. Process 4712 has 10.00 MiB memory in use. 11.84 GiB allowed; " +
      std::string(kEnd));

  expect_main_figures(message);
  EXPECT_EQ(message.figures.process, printed(21.10, 30));
  EXPECT_EQ(message.figures.limit, printed(11.84, 30));
}

TEST(JoinedFacts, ReadsTheLimitWithoutProcessLines) {
  const Message message =
      only(std::string(kStart) + std::string(kDevice) + "20.00 MiB allowed; " + std::string(kEnd));

  EXPECT_EQ(message.figures.limit, printed(20, 20));
}

TEST(JoinedFacts, KeepsEveryUnitAsItsInterval) {
  const Message message = only(
      "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 3 has a total capacity of 79.15 GiB of "
      "which 512 bytes is free. Including non-PyTorch memory, this process has 1024.00 KiB memory "
      "in use. ");

  EXPECT_EQ(message.device, 3);
  EXPECT_EQ(message.figures.request, (Bounds{2 * kMiB - 5242, 2 * kMiB + 5242}));
  EXPECT_EQ(message.figures.free, (Bounds{512, 512}));
  EXPECT_EQ(message.figures.process, (Bounds{kMiB - 5, kMiB + 5}));
}

// WSL prints 2^64 - 1 where the driver does not say; it is no figure.
TEST(JoinedFacts, TakesTheSentinelForUnknown) {
  const Message message =
      only(std::string(kStart) + std::string(kDevice) +
           "Process 12 has 17179869184.00 GiB memory in use. Including non-PyTorch memory, this "
           "process has 17179869184.00 GiB memory in use. " +
           std::string(kEnd));

  expect_main_figures(message);
  EXPECT_FALSE(message.figures.process);
}

TEST(JoinedFacts, ReadsMessagesWrappedAtAnyBlank) {
  const std::string whole = std::string(kStart) + std::string(kDevice) +
                            "Including non-PyTorch memory, this process has 23.60 GiB memory in "
                            "use. 20.00 GiB allowed; " +
                            std::string(kEnd);
  for (std::size_t blank = whole.find(' '); blank != std::string::npos;
       blank = whole.find(' ', blank + 1)) {
    std::string wrapped = whole;
    wrapped[blank] = '\n';
    const Message message = only(wrapped);
    expect_main_figures(message);
    EXPECT_EQ(message.figures.process, printed(23.60, 30)) << wrapped;
    EXPECT_EQ(message.figures.limit, printed(20, 30)) << wrapped;
  }
}

TEST(JoinedFacts, ReadsTheMappingLineOfExpandableSegments) {
  const Message message = only(
      "[W] CUDACachingAllocator.cpp:1] memory mapping failed with OOM on device 1 while trying "
      "to map 20971520 bytes (free: 12582912, total: 25437405184)");

  EXPECT_EQ(message.device, 1);
  EXPECT_FALSE(message.figures.request) << "the line names a page, not the request";
  EXPECT_EQ(message.figures.free, model::exactly(12582912));
  EXPECT_EQ(message.figures.total, model::exactly(25437405184));
}

TEST(JoinedFacts, ReadsTheAllocationLineOf213) {
  const Message message = only(
      "memory allocation failed with OOM on device 7 while trying to allocate 1879048192 bytes "
      "(free: 89128960, total: 25437405184)");

  EXPECT_EQ(message.device, 7);
  EXPECT_EQ(message.figures.request, model::exactly(1879048192));
  EXPECT_EQ(message.figures.free, model::exactly(89128960));
}

// A logger may print the same event several times; it is one message, with a count.
TEST(JoinedFacts, CountsLinesFromOneAndRepeatsTogether) {
  const std::string whole = std::string(kStart) + std::string(kDevice) + std::string(kEnd);

  const auto messages = find_messages("epoch 1\n" + whole + "\nmemory\n\n" + whole + "\n" + whole);

  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].line, 2U);
  EXPECT_EQ(messages[0].count, 3U);
}

TEST(JoinedFacts, EveryPrefixOfAMessageIsSafeToRead) {
  const std::string whole = std::string(kStart) + std::string(kDevice) +
                            "Including non-PyTorch memory, this process has 23.60 GiB memory in "
                            "use. 20.00 GiB allowed; ";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string prefix = whole.substr(0, length);
    const std::vector<char> exact(prefix.begin(), prefix.end());  // no NUL behind it
    const auto messages = find_messages({exact.data(), exact.size()});
    EXPECT_EQ(messages.size(), length >= kStart.find('.') ? 1U : 0U) << prefix;
  }
}

}  // namespace
}  // namespace fragscope::explain
