// SPDX-License-Identifier: Apache-2.0
#include "tests/ingest/text_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace fragscope::ingest {
namespace {

using testing::PickleWriter;
using namespace std::string_literals;

struct Case {
  std::string_view name;
  std::string opcodes;  // between PROTO and STOP
  std::string_view shown;
};

std::string wrapped(std::string_view opcodes, int protocol) {
  return PickleWriter(protocol).raw(opcodes).stop().bytes();
}

std::string shown_or_error(const std::string& bytes) {
  const auto shown = run_pickle(bytes);
  return shown ? *shown : "error: " + shown.error().describe();
}

// The machine reads common opcodes in a fast loop as long as some bytes follow, and the last ones
// with every check; bytes behind STOP send the same opcodes through the loop.
void expect_all(const std::vector<Case>& cases) {
  const std::string behind(64, '?');
  for (const Case& each : cases) {
    for (const int protocol : {2, 3, 4, 5}) {
      const std::string bytes = wrapped(each.opcodes, protocol);
      EXPECT_EQ(shown_or_error(bytes), each.shown) << each.name << ", protocol " << protocol;
      EXPECT_EQ(shown_or_error(bytes + behind), each.shown) << each.name << ", in the fast loop";
    }
  }
}

TEST(PickleMachine, RunsNumbersAndConstants) {
  expect_all({
      {"NONE", "N"s, "None"},
      {"NEWTRUE", "\x88"s, "True"},
      {"NEWFALSE", "\x89"s, "False"},
      {"BININT1", "K\xff"s, "255"},
      {"BININT2", "M\xff\xff"s, "65535"},
      {"BININT, negative", "J\xfe\xff\xff\xff"s, "-2"},
      {"BININT", "J\x00\x00\x00\x7f"s, "2130706432"},
      {"BINFLOAT", "G\x3f\xf8\x00\x00\x00\x00\x00\x00"s, "1.5"},
  });
}

TEST(PickleMachine, RunsIntegersOfAnyWidthUpTo64Bits) {
  expect_all({
      {"no byte", "\x8a\x00"s, "0"},
      {"one byte", "\x8a\x01\x7f"s, "127"},
      {"one byte, negative", "\x8a\x01\xff"s, "-1"},
      {"two bytes, positive by a leading zero", "\x8a\x02\xff\x00"s, "255"},
      {"five bytes", "\x8a\x05\x00\x00\x00\x00\x02"s, "8589934592"},
      {"eight bytes, largest", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"s, "9223372036854775807"},
      {"eight bytes, least", "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"s, "-9223372036854775808"},
      {"nine bytes, 2^63", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00"s, "9223372036854775808u"},
      {"nine bytes, 2^64 - 1",
       "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"s,
       "18446744073709551615u"},
      {"nine bytes, small", "\x8a\x09\x05\x00\x00\x00\x00\x00\x00\x00\x00"s, "5"},
  });
}

TEST(PickleMachine, RunsStringsTuplesListsAndDicts) {
  const std::string long_text(300, 'x');
  expect_all({
      {"SHORT_BINUNICODE", "\x8c\x02hi"s, "'hi'"},
      {"BINUNICODE", "X\x02\x00\x00\x00hi"s, "'hi'"},
      {"empty string", "\x8c\x00"s, "''"},
      {"EMPTY_TUPLE", ")"s, "()"},
      {"TUPLE1", "K\x01\x85"s, "(1)"},
      {"TUPLE2", "K\x01K\x02\x86"s, "(1, 2)"},
      {"TUPLE3", "K\x01K\x02K\x03\x87"s, "(1, 2, 3)"},
      {"TUPLE", "(K\x01K\x02K\x03K\x04t"s, "(1, 2, 3, 4)"},
      {"EMPTY_LIST", "]"s, "[]"},
      {"LIST", "(K\x01K\x02l"s, "[1, 2]"},
      {"APPEND",
       "]K\x01"s
       "aK\x02"s
       "a"s,
       "[1, 2]"},
      {"APPENDS twice",
       "](K\x01K\x02"s
       "e(K\x03"s
       "e"s,
       "[1, 2, 3]"},
      {"APPENDS of nothing", "](e"s, "[]"},
      {"EMPTY_DICT", "}"s, "{}"},
      {"DICT",
       "(K\x01K\x02"s
       "d"s,
       "{1: 2}"},
      {"SETITEM", "}K\x01K\x02s"s, "{1: 2}"},
      {"SETITEMS", "}(K\x01K\x02K\x03K\x04u"s, "{1: 2, 3: 4}"},
      {"nested",
       "](}(\x8c\x01"s
       "aNu]e"s,
       "[{'a': None}, []]"},
  });
  EXPECT_EQ(shown_or_error(PickleWriter().string(long_text).stop().bytes()), "'" + long_text + "'");
}

TEST(PickleMachine, KeepsAndRecallsSharedObjects) {
  expect_all({
      {"BINPUT, BINGET",
       "\x8c\x01"s
       "aq\x07h\x07\x86"s,
       "('a', 'a')"},
      {"LONG_BINPUT, LONG_BINGET",
       "\x8c\x01"s
       "ar\x03\x00\x00\x00j\x03\x00\x00\x00\x86"s,
       "('a', 'a')"},
      {"MEMOIZE counts",
       "(\x8c\x01"s
       "a\x94\x8c\x01"s
       "b\x94h\x00h\x01t"s,
       "('a', 'b', 'a', 'b')"},
      {"an index stored again",
       "(\x8c\x01"s
       "aq\x00\x8c\x01"s
       "bq\x00h\x00t"s,
       "('a', 'b', 'b')"},
      {"indices out of order",
       "(\x8c\x01"s
       "aq\x05\x8c\x01"s
       "bq\x02h\x05t"s,
       "('a', 'b', 'a')"},
      {"a list that is filled after it was stored",
       "]\x94(K\x01"s
       "eh\x00\x86"s,
       "([1], [1])"},
  });
}

// A list of references to shared objects is a call stack; one that comes again byte for byte is
// looked up, unless a memo entry changed in between.
TEST(PickleMachine, RepeatsListsOfReferences) {
  const std::string a_and_b =
      "(\x8c\x01"s
      "a\x94\x8c\x01"s
      "b\x94"s;
  const std::string list =
      "]\x94(h\x00h\x01j\x00\x00\x00\x00"s
      "e"s;
  const std::string shown = "('a', 'b', ['a', 'b', 'a'], ['a', 'b', 'a'], ['a', 'b', 'a'])";
  expect_all({
      {"three times", a_and_b + list + list + list + "t", shown},
      {"an entry changed",
       a_and_b + list +
           "\x8c\x01"s
           "cq\x00"s +
           list + "t",
       "('a', 'b', ['a', 'b', 'a'], 'c', ['c', 'b', 'c'])"},
      {"a reference too far",
       a_and_b + list +
           "]\x94(h\x09"s
           "et"s,
       "error: byte 27: memo entry 9 was never stored"},
      {"the repeated list is shared, too",
       a_and_b + list + list + "h\x03t"s,
       "('a', 'b', ['a', 'b', 'a'], ['a', 'b', 'a'], ['a', 'b', 'a'])"},
      {"a repeated list that grows is another list",
       a_and_b + list + list +
           "K\x05"s
           "ah\x02t"s,
       "('a', 'b', ['a', 'b', 'a'], ['a', 'b', 'a', 5], ['a', 'b', 'a'])"},
  });
}

// Protocol 4 wraps the opcodes in frames; what lies in several frames is one pickle.
TEST(PickleMachine, PassesFrameBorders) {
  PickleWriter writer(4);
  writer.op(0x95).number(2, 8).op(']').mark();
  writer.op(0x95).number(4, 8).integer(7).op('e').stop();

  EXPECT_EQ(shown_or_error(writer.bytes()), "[7]");
}

TEST(PickleMachine, IgnoresWhatComesAfterStop) {
  EXPECT_EQ(shown_or_error(wrapped("N"s, 4) + "anything"), "None");
}

TEST(PickleMachine, PassesTheErrorOfTheBuilderWithThePlace) {
  TextBuilder builder;
  builder.refuses = true;

  const auto shown = run_pickle(wrapped("]K\x01"s
                                        "a"s,
                                        4),
                                builder);

  ASSERT_FALSE(shown);
  EXPECT_EQ(shown.error().code, ErrorCode::kContradictory);
  EXPECT_EQ(shown.error().describe(), "byte 5: refused");
}

TEST(PickleMachine, ReportsProgressUpToTheLastByte) {
  const std::string bytes = wrapped(std::string("](") + std::string(1'000'000, 'N') + "e", 4);
  std::vector<std::uint64_t> seen;
  TextBuilder builder;

  PickleMachine<TextBuilder> machine(testing::as_bytes(bytes), builder);
  const auto value = machine.run([&](std::uint64_t done, std::uint64_t total) {
    EXPECT_EQ(total, bytes.size());
    seen.push_back(done);
  });

  ASSERT_TRUE(value);
  EXPECT_GE(seen.size(), 3U);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen.back(), bytes.size());
}

TEST(PickleMachine, StopsWhenTheBuilderHoldsTooMuch) {
  TextBuilder builder;
  builder.claimed_bytes = std::size_t{65} << 20;

  const auto shown = run_pickle(wrapped(std::string(600'000, 'N'), 4), builder);

  ASSERT_FALSE(shown);
  EXPECT_EQ(shown.error().code, ErrorCode::kTooLarge);
}

// Each MARK costs four bytes of memory and each NONE sixteen, out of one byte of file: the
// machine's own stacks count, too. The limit is 64 MiB and twelve times the file.
TEST(PickleMachine, StopsWhenItsOwnStackGrowsTooLarge) {
  const auto shown = run_pickle(wrapped(std::string((std::size_t{4} << 20) + 600'000, 'N'), 4));

  ASSERT_FALSE(shown);
  EXPECT_EQ(shown.error().code, ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace fragscope::ingest
