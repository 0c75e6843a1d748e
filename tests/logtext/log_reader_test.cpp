// SPDX-License-Identifier: Apache-2.0
// Logs of every kind of bytes: the same lines come out, wherever a piece of the file ends.
#include "analyzer/logtext/log_reader.hpp"

#include "tests/support/temporary_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::logtext {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr std::array<std::string_view, 1> kFirst = {"first phrase"};
constexpr std::array<std::string_view, 1> kSecond = {"second phrase"};

const PhraseScanner& scanner() {
  static const PhraseScanner both({kFirst, kSecond});
  return both;
}

struct Found {
  std::uint64_t number = 0;
  std::uint64_t offset = 0;
  std::uint32_t groups = 0;
  std::string line;
  bool operator==(const Found&) const = default;
};

struct ReadBack {
  std::vector<Found> hits;
  LogTotals totals;
};

ReadBack read_back(const std::string& path) {
  ReadBack back;
  const auto totals = read_log(path, scanner(), [&back](const LineHit& hit) {
    back.hits.push_back({hit.number, hit.offset, hit.groups, std::string(hit.line)});
  });
  EXPECT_TRUE(totals) << totals.error().message;
  if (totals) back.totals = *totals;
  return back;
}

std::string gzip(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

std::string utf16(std::string_view ascii, bool big_endian) {
  std::string out;
  for (const char c : ascii) {
    out += big_endian ? '\0' : c;
    out += big_endian ? c : '\0';
  }
  return out;
}

const std::string kLog = "nothing\nhere the first phrase\nnothing\nand the second phrase";

std::vector<Found> hits_of_log() {
  return {{2, 8, 1, "here the first phrase"}, {4, 38, 2, "and the second phrase"}};
}

TEST(LogReader, HandsOverTheLinesWithAPhrase) {
  const test::TemporaryFile file(kLog);
  const ReadBack back = read_back(file.path());
  EXPECT_EQ(back.hits, hits_of_log());
  EXPECT_EQ(back.totals.lines, 4U);
  EXPECT_EQ(back.totals.bytes, kLog.size());
}

TEST(LogReader, CountsALastLineWithoutABreak) {
  EXPECT_EQ(read_back(test::TemporaryFile("a\nb").path()).totals.lines, 2U);
  EXPECT_EQ(read_back(test::TemporaryFile("a\nb\n").path()).totals.lines, 2U);
  EXPECT_EQ(read_back(test::TemporaryFile("").path()).totals.lines, 0U);
}

TEST(LogReader, UnfoldsCompressedLogsByTheirContent) {
  EXPECT_EQ(read_back(test::TemporaryFile(gzip(kLog)).path()).hits, hits_of_log());
  EXPECT_EQ(read_back(test::TemporaryFile(zstd(kLog)).path()).hits, hits_of_log());
}

TEST(LogReader, JoinsMembersAndPassesOverPadding) {
  const std::string front = kLog.substr(0, 20);
  const std::string back = kLog.substr(20);
  const std::string padding(100, '\0');
  EXPECT_EQ(read_back(test::TemporaryFile(gzip(front) + gzip(back) + padding).path()).hits,
            hits_of_log());
  EXPECT_EQ(read_back(test::TemporaryFile(zstd(front) + zstd(back)).path()).hits, hits_of_log());
}

TEST(LogReader, UnfoldsALogThatIsLargerThanItsBuffers) {
  std::string large;
  for (std::size_t i = 0; i < 400'000; ++i)
    large += "line " + std::to_string(i * 7919) + " of a long log\n";
  large += "first phrase\n";
  for (const std::string& stored : {gzip(large), zstd(large)}) {
    const ReadBack back = read_back(test::TemporaryFile(stored).path());
    ASSERT_THAT(back.hits, SizeIs(1));
    EXPECT_EQ(back.hits[0].number, 400'001U);
    EXPECT_EQ(back.totals.bytes, large.size());
  }
}

TEST(LogReader, RefusesDamagedCompression) {
  const std::string good = gzip(std::string(1000, 'x') + kLog);
  for (const std::string& bad :
       {good.substr(0, good.size() / 2), zstd(kLog).substr(0, 30), good.substr(0, 12) + "junk"}) {
    const test::TemporaryFile file(bad);
    const auto totals = read_log(file.path(), scanner(), [](const LineHit&) {});
    ASSERT_FALSE(totals);
    EXPECT_EQ(totals.error().code, ErrorCode::kDamaged);
  }
}

TEST(LogReader, ReadsUtf16WithAndWithoutAMark) {
  for (const bool big_endian : {false, true}) {
    const std::string mark = big_endian ? "\xfe\xff" : "\xff\xfe";
    for (const std::string& text : {mark + utf16(kLog, big_endian), utf16(kLog, big_endian)}) {
      const ReadBack back = read_back(test::TemporaryFile(text).path());
      EXPECT_EQ(back.hits, hits_of_log());
      EXPECT_EQ(back.totals.encoding, "UTF-16");
    }
  }
}

TEST(LogReader, MakesUtf8OfUtf16) {
  const std::string text(
      "\xff\xfe"
      "\xe9\x00"          // e with acute
      "\x3d\xd8\x00\xde"  // a pair of surrogates
      "\x00\xd8"          // half a pair
      "f\0i\0r\0s\0t\0 \0p\0h\0r\0a\0s\0e\0",
      34);
  const ReadBack back = read_back(test::TemporaryFile(text).path());
  ASSERT_THAT(back.hits, SizeIs(1));
  EXPECT_EQ(back.hits[0].line,
            "\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd"
            "first phrase");
}

// Pieces of the file end every four mebibytes or so; a line lies across each end in turn.
TEST(LogReader, SeesEveryPhraseOfALineThatLiesAcrossTheEndOfAPiece) {
  const std::string line = "xx first phrase and 40 more bytes of text, second phrase\n";
  std::string log;
  std::size_t lines = 0;
  while (log.size() < (std::size_t{13} << 20)) {
    log += line;
    ++lines;
  }
  for (std::size_t shift = 0; shift < 3; ++shift) {
    const ReadBack back = read_back(test::TemporaryFile(std::string(shift, '\n') + log).path());
    EXPECT_THAT(back.hits, SizeIs(lines));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < back.hits.size(); ++i) {
      const Found& hit = back.hits[i];
      const bool right =
          hit.groups == 3 && hit.number == shift + i + 1 && hit.offset == shift + i * line.size();
      wrong += right ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0U);
  }
}

TEST(LogReader, HandsOverAnOverlongLineInParts) {
  const std::string filler(20'000, 'x');
  const ReadBack back = read_back(
      test::TemporaryFile("a\n" + filler + "first phrase" + filler + "second phrase" + filler)
          .path());
  ASSERT_THAT(back.hits, SizeIs(2));
  EXPECT_EQ(back.hits[0].number, 2U);
  EXPECT_EQ(back.hits[1].number, 2U);
  EXPECT_LT(back.hits[0].offset, back.hits[1].offset);
  EXPECT_LE(back.hits[0].line.size(), 16U << 10);
}

TEST(LogReader, SaysWhyALogCannotBeRead) {
  const auto use = [](const LineHit&) {};
  EXPECT_EQ(read_log("/nonexistent/a.log", scanner(), use).error().code, ErrorCode::kUnreadable);
  EXPECT_EQ(read_log("/tmp", scanner(), use).error().code, ErrorCode::kUnreadable);
}

}  // namespace
}  // namespace fragscope::logtext
