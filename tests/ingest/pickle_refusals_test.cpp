// SPDX-License-Identifier: Apache-2.0
// What the pickle machine must refuse, with the code, the place and the words.
#include "tests/ingest/text_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::ingest {
namespace {

using ::testing::HasSubstr;
using testing::PickleWriter;
using namespace std::string_view_literals;

// The opcodes of data; all others could run code, or are of no use to PyTorch's picklers.
constexpr std::string_view kRunnable =
    ".(GJKMNXad}ehjl]qrst)u\x85\x86\x87\x88\x89\x8a\x8c\x94\x95"sv;

struct BadPickle {
  std::string_view name;
  std::string bytes;
  ErrorCode code;
  std::uint64_t offset;
  std::string_view words;
};

void expect_refusals(const std::vector<BadPickle>& cases) {
  for (const BadPickle& each : cases) {
    const auto shown = run_pickle(each.bytes);
    ASSERT_FALSE(shown) << each.name << " gave " << *shown;
    EXPECT_EQ(shown.error().code, each.code) << each.name << ": " << shown.error().describe();
    EXPECT_EQ(shown.error().byte_offset, each.offset)
        << each.name << ": " << shown.error().describe();
    EXPECT_THAT(shown.error().message, HasSubstr(std::string(each.words))) << each.name;
  }
}

std::string pickle(std::string_view opcodes) {
  return PickleWriter(4).raw(opcodes).bytes();
}

TEST(PickleRefusals, NameEveryOtherOpcodeAndItsPlace) {
  for (int code = 0; code < 256; ++code) {
    if (kRunnable.find(static_cast<char>(code)) != std::string_view::npos) continue;
    const std::string_view name = opcode_name(static_cast<std::uint8_t>(code));

    const auto shown =
        run_pickle(PickleWriter(4).raw("NN"sv).op(code).raw("os\nsystem\n"sv).bytes());

    ASSERT_FALSE(shown) << code;
    EXPECT_EQ(shown.error().byte_offset, 4U) << code;
    if (name.empty()) {
      EXPECT_EQ(shown.error().code, ErrorCode::kDamaged) << code;
      EXPECT_THAT(shown.error().message, HasSubstr("byte " + std::to_string(code)));
    } else {
      EXPECT_EQ(shown.error().code, ErrorCode::kForeign) << name;
      EXPECT_THAT(shown.error().message, HasSubstr("opcode " + std::string(name) + " "));
    }
  }
}

// The names that matter most, spelled out, so that a slip in the table of names would show.
TEST(PickleRefusals, NeverImportCallOrLoadAnything) {
  const std::vector<std::pair<char, std::string_view>> dangerous = {
      {'c', "GLOBAL"},
      {'\x93', "STACK_GLOBAL"},
      {'R', "REDUCE"},
      {'b', "BUILD"},
      {'i', "INST"},
      {'o', "OBJ"},
      {'\x81', "NEWOBJ"},
      {'\x92', "NEWOBJ_EX"},
      {'P', "PERSID"},
      {'Q', "BINPERSID"},
      {'\x82', "EXT1"},
      {'\x83', "EXT2"},
      {'\x84', "EXT4"},
      {'\x97', "NEXT_BUFFER"},
  };
  for (const auto& [code, name] : dangerous) {
    expect_refusals({{name,
                      pickle("NN"sv) + code + "x\ny\n.",
                      ErrorCode::kForeign,
                      4,
                      "opcode " + std::string(name) + " has no place"}});
  }
}

TEST(PickleRefusals, WantProtocolTwoToFive) {
  for (const int protocol : {0, 1, 6, 9, 255}) {
    const std::string start{'\x80', static_cast<char>(protocol)};
    expect_refusals({{"protocol", start + "N.", ErrorCode::kForeign, 0, "protocol 2 to 5"}});
  }
  expect_refusals({{"no PROTO", "(dp0\n.", ErrorCode::kForeign, 0, "protocol 2 to 5"}});
}

TEST(PickleRefusals, NameTheOpcodeInWhichTheFileEnds) {
  expect_refusals({
      {"PROTO", "\x80", ErrorCode::kDamaged, 0, "PROTO"},
      {"BININT1", pickle("NK"sv), ErrorCode::kDamaged, 3, "BININT1"},
      {"BININT2", pickle("M\x01"sv), ErrorCode::kDamaged, 2, "BININT2"},
      {"BININT", pickle("J\x01\x02\x03"sv), ErrorCode::kDamaged, 2, "BININT"},
      {"LONG1, no length", pickle("\x8a"sv), ErrorCode::kDamaged, 2, "LONG1"},
      {"LONG1, part of it", pickle("\x8a\x08\x01"sv), ErrorCode::kDamaged, 2, "LONG1"},
      {"BINFLOAT", pickle("G1234567"sv), ErrorCode::kDamaged, 2, "BINFLOAT"},
      {"SHORT_BINUNICODE", pickle("\x8c"sv), ErrorCode::kDamaged, 2, "SHORT_BINUNICODE"},
      {"BINUNICODE", pickle("X\x01\x00\x00"sv), ErrorCode::kDamaged, 2, "BINUNICODE"},
      {"BINPUT", pickle("]q"sv), ErrorCode::kDamaged, 3, "BINPUT"},
      {"LONG_BINPUT", pickle("]r\x01\x00\x00"sv), ErrorCode::kDamaged, 3, "LONG_BINPUT"},
      {"BINGET", pickle("]\x94h"sv), ErrorCode::kDamaged, 4, "BINGET"},
      {"LONG_BINGET", pickle("]\x94j\x00\x00\x00"sv), ErrorCode::kDamaged, 4, "LONG_BINGET"},
      {"FRAME", pickle("\x95\x01\x00"sv), ErrorCode::kDamaged, 2, "FRAME"},
      {"a whole value without STOP", pickle("N"sv), ErrorCode::kDamaged, 3, "STOP"},
      {"nothing behind PROTO", pickle(""sv), ErrorCode::kDamaged, 2, "STOP"},
  });
}

TEST(PickleRefusals, SayHowMuchAStringOrFrameLacks) {
  expect_refusals({
      {"short string",
       pickle("\x8c\x05"sv
              "abc"sv),
       ErrorCode::kDamaged,
       2,
       "5 bytes, but only 3"},
      {"string of 4 GiB",
       pickle("X\xff\xff\xff\xff"sv
              "ab"sv),
       ErrorCode::kDamaged,
       2,
       "4294967295 bytes, but only 2"},
      {"frame", pickle("\x95\x64\0\0\0\0\0\0\0N."sv), ErrorCode::kDamaged, 2, "100 bytes, only 2"},
      {"frame of 2^64 - 1",
       pickle("\x95\xff\xff\xff\xff\xff\xff\xff\xffN."sv),
       ErrorCode::kDamaged,
       2,
       "only 2"},
  });
}

TEST(PickleRefusals, WantIntegersOf64Bits) {
  const auto long1 = [](std::string_view digits) {
    return PickleWriter(4)
        .op(0x8a)
        .byte(static_cast<int>(digits.size()))
        .raw(digits)
        .stop()
        .bytes();
  };
  expect_refusals({
      {"65 bits", long1("\0\0\0\0\0\0\0\0\1"sv), ErrorCode::kForeign, 2, "64 bits"},
      {"below -2^63", long1("\0\0\0\0\0\0\0\x7f\xff"sv), ErrorCode::kForeign, 2, "64 bits"},
      {"ten bytes", long1("\1\0\0\0\0\0\0\0\0\0"sv), ErrorCode::kForeign, 2, "64 bits"},
      {"255 bytes", long1(std::string(255, '\1')), ErrorCode::kForeign, 2, "64 bits"},
  });
}

TEST(PickleRefusals, CatchMemoEntriesThatCannotBe) {
  expect_refusals({
      {"never stored", pickle("h\x07."sv), ErrorCode::kDamaged, 2, "memo entry 7"},
      {"never stored, long",
       pickle("j\x07\x01\x00\x00."sv),
       ErrorCode::kDamaged,
       2,
       "memo entry 263"},
      {"left out", pickle("]q\x03h\x02."sv), ErrorCode::kDamaged, 5, "memo entry 2"},
      {"from nothing", pickle("q\x00."sv), ErrorCode::kDamaged, 2, "from no value"},
      {"from nothing", pickle("\x94."sv), ErrorCode::kDamaged, 2, "from no value"},
      {"a number", pickle("K\x01q\x00."sv), ErrorCode::kForeign, 4, "number in the memo"},
      {"an index of 2^32 - 1",
       pickle("]r\xff\xff\xff\xff."sv),
       ErrorCode::kDamaged,
       3,
       "4294967295"},
  });
}

TEST(PickleRefusals, CatchStacksThatDoNotAddUp) {
  expect_refusals({
      {"STOP with nothing", pickle("."sv), ErrorCode::kDamaged, 2, "0 values"},
      {"STOP with two values", pickle("NN."sv), ErrorCode::kDamaged, 4, "2 values"},
      {"STOP with an open MARK", pickle("N(."sv), ErrorCode::kDamaged, 4, "STOP"},
      {"APPENDS without MARK", pickle("]e."sv), ErrorCode::kDamaged, 3, "MARK"},
      {"SETITEMS without MARK", pickle("}u."sv), ErrorCode::kDamaged, 3, "MARK"},
      {"TUPLE without MARK", pickle("Nt."sv), ErrorCode::kDamaged, 3, "MARK"},
      {"LIST without MARK", pickle("l."sv), ErrorCode::kDamaged, 2, "MARK"},
      {"DICT without MARK", pickle("d."sv), ErrorCode::kDamaged, 2, "MARK"},
      {"TUPLE1 of nothing", pickle("\x85."sv), ErrorCode::kDamaged, 2, "tuple"},
      {"TUPLE2 of one", pickle("N\x86."sv), ErrorCode::kDamaged, 3, "tuple"},
      {"TUPLE3 of two", pickle("NN\x87."sv), ErrorCode::kDamaged, 4, "tuple"},
      {"APPENDS to nothing", pickle("(Ne."sv), ErrorCode::kDamaged, 4, "list"},
      {"APPENDS to a dict", pickle("}(Ne."sv), ErrorCode::kDamaged, 5, "list"},
      {"APPEND to a dict", pickle("}Na."sv), ErrorCode::kDamaged, 4, "list"},
      {"APPEND of one value", pickle("]a."sv), ErrorCode::kDamaged, 3, "APPEND"},
      {"SETITEMS on a list", pickle("](NNu."sv), ErrorCode::kDamaged, 6, "dict"},
      {"SETITEMS of an odd number", pickle("}(NNNu."sv), ErrorCode::kDamaged, 7, "pairs"},
      {"SETITEM on a list", pickle("]NNs."sv), ErrorCode::kDamaged, 5, "dict"},
      {"SETITEM of two values", pickle("}Ns."sv), ErrorCode::kDamaged, 4, "SETITEM"},
      {"DICT of an odd number", pickle("(NNNd."sv), ErrorCode::kDamaged, 6, "pairs"},
      {"a tuple takes what lies below a MARK, which then closes",
       pickle("NN(\x86t."sv),
       ErrorCode::kDamaged,
       6,
       "MARK"},
  });
}

// Python refuses to take values from below an open MARK; so it is damage here, whichever opcode
// notices it.
TEST(PickleRefusals, TakeNothingFromBelowAnOpenMark) {
  for (const std::string_view opcodes : {"N(N\x86t."sv,
                                         "](N"sv
                                         "aN\x86t."sv,
                                         "}(NNsN\x86t."sv}) {
    const auto shown = run_pickle(pickle(opcodes));

    ASSERT_FALSE(shown) << *shown;
    EXPECT_EQ(shown.error().code, ErrorCode::kDamaged);
  }
}

}  // namespace
}  // namespace fragscope::ingest
