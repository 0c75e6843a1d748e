// SPDX-License-Identifier: Apache-2.0
#include "analyzer/ingest/byte_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::ingest {
namespace {

using ::testing::HasSubstr;

std::string gzip(const std::string& text) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  deflateInit2(&stream, 9, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

/// Text that compresses, but not beyond all measure.
std::string some_text(std::size_t size) {
  std::string text;
  for (std::uint32_t i = 0; text.size() < size; ++i)
    text += std::to_string(i * 2654435761U) + ' ';
  text.resize(size);
  return text;
}

class ByteSourceTest : public ::testing::Test {
 public:
  ~ByteSourceTest() override { std::filesystem::remove_all(folder_); }

 protected:
  ByteSourceTest() {
    std::string pattern = ::testing::TempDir() + "/byte_source.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }

  std::string file_with(const std::string& bytes) {
    std::string path = folder_ + "/input";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  [[nodiscard]] const std::string& folder() const { return folder_; }

  /// The bytes that opening a file with these bytes gives.
  std::string opened(const std::string& bytes) {
    const auto source = ByteSource::open(file_with(bytes));
    if (!source) return "error: " + source.error().describe();
    EXPECT_EQ(source->stored_bytes(), bytes.size());
    return {reinterpret_cast<const char*>(source->bytes().data()), source->bytes().size()};
  }
  Error refusal(const std::string& bytes) {
    const auto source = ByteSource::open(file_with(bytes));
    if (source) ADD_FAILURE() << "accepted";
    return source ? Error{} : source.error();
  }

 private:
  std::string folder_;
};

TEST_F(ByteSourceTest, MapsAFileAsItIs) {
  const std::string text = some_text(100'000);

  EXPECT_EQ(opened(text), text);
}

TEST_F(ByteSourceTest, UnfoldsGzip) {
  const std::string text = some_text(3'000'000);

  EXPECT_EQ(opened(gzip(text)), text);
}

TEST_F(ByteSourceTest, UnfoldsGzipOfSeveralMembers) {
  EXPECT_EQ(opened(gzip("one, ") + gzip("two, ") + gzip("three")), "one, two, three");
}

TEST_F(ByteSourceTest, IgnoresPaddingBehindGzip) {
  EXPECT_EQ(opened(gzip("text") + std::string(512, '\0')), "text");
}

TEST_F(ByteSourceTest, UnfoldsZstd) {
  const std::string text = some_text(3'000'000);

  EXPECT_EQ(opened(zstd(text)), text);
}

TEST_F(ByteSourceTest, UnfoldsZstdOfSeveralFrames) {
  EXPECT_EQ(opened(zstd("one, ") + zstd("two, ") + zstd("three")), "one, two, three");
}

// The border between "all input used" and "all output flushed" lies at multiples of the chunk.
TEST_F(ByteSourceTest, UnfoldsWhatFillsWholeChunks) {
  for (const std::size_t size : {(1U << 20) - 1, 1U << 20, (1U << 20) + 1, 2U << 20}) {
    const std::string text = some_text(size);
    EXPECT_TRUE(opened(gzip(text)) == text) << size;
    EXPECT_TRUE(opened(zstd(text)) == text) << size;
  }
}

TEST_F(ByteSourceTest, RefusesEveryPrefixOfGzip) {
  const std::string whole = gzip(some_text(300));
  for (std::size_t length = 2; length < whole.size(); ++length) {
    const Error error = refusal(whole.substr(0, length));
    EXPECT_EQ(error.code, ErrorCode::kDamaged) << length;
    EXPECT_TRUE(error.byte_offset && *error.byte_offset <= length) << error.describe();
  }
}

TEST_F(ByteSourceTest, RefusesEveryPrefixOfZstd) {
  const std::string whole = zstd(some_text(300));
  for (std::size_t length = 4; length < whole.size(); ++length) {
    const Error error = refusal(whole.substr(0, length));
    EXPECT_EQ(error.code, ErrorCode::kDamaged) << length;
    EXPECT_TRUE(error.byte_offset && *error.byte_offset <= length) << error.describe();
  }
}

TEST_F(ByteSourceTest, RefusesASecondMemberThatIsCut) {
  const std::string first = gzip("one");
  const std::string second = gzip("two");

  const Error error = refusal(first + second.substr(0, second.size() - 3));

  EXPECT_EQ(error.code, ErrorCode::kDamaged);
  EXPECT_THAT(error.message, HasSubstr("too early"));
}

TEST_F(ByteSourceTest, RefusesAWrongChecksum) {
  std::string bytes = gzip("some text");
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 1);

  EXPECT_EQ(refusal(bytes).code, ErrorCode::kDamaged);
}

TEST_F(ByteSourceTest, RefusesNoiseBehindAMagicNumber) {
  EXPECT_EQ(refusal("\x1f\x8b" + some_text(100)).code, ErrorCode::kDamaged);
  EXPECT_EQ(refusal("\x28\xb5\x2f\xfd\xff\xff" + some_text(100)).code, ErrorCode::kDamaged);
}

TEST_F(ByteSourceTest, RefusesBombs) {
  const std::string zeros(std::size_t{100} << 20, '\0');

  EXPECT_EQ(refusal(gzip(zeros)).code, ErrorCode::kTooLarge);
  EXPECT_EQ(refusal(zstd(zeros)).code, ErrorCode::kTooLarge);
}

TEST_F(ByteSourceTest, AcceptsAHighFactorWhileItIsSmall) {
  const std::string zeros(std::size_t{8} << 20, '\0');

  EXPECT_TRUE(opened(gzip(zeros)) == zeros);
  EXPECT_TRUE(opened(zstd(zeros)) == zeros);
}

TEST_F(ByteSourceTest, RefusesAnEmptyFile) {
  const Error error = refusal("");

  EXPECT_EQ(error.code, ErrorCode::kDamaged);
  EXPECT_THAT(error.message, HasSubstr("empty"));
}

TEST_F(ByteSourceTest, RefusesCompressedNothing) {
  EXPECT_EQ(refusal(gzip("")).code, ErrorCode::kDamaged);
  EXPECT_EQ(refusal(zstd("")).code, ErrorCode::kDamaged);
}

TEST_F(ByteSourceTest, RefusesADirectory) {
  const auto source = ByteSource::open(folder());

  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kUnreadable);
  EXPECT_THAT(source.error().message, HasSubstr("directory"));
}

TEST_F(ByteSourceTest, RefusesAMissingFile) {
  const auto source = ByteSource::open(folder() + "/nothing");

  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kUnreadable);
  EXPECT_THAT(source.error().message, HasSubstr("No such file"));
}

// In a process of its own, since standard input is replaced.
void expect_standard_input(const std::string& path, const std::string& expected) {
  const int file = ::open(path.c_str(), O_RDONLY);
  if (file < 0 || ::dup2(file, STDIN_FILENO) < 0) std::_Exit(2);
  const auto source = ByteSource::open("-");
  const bool same = source && std::ranges::equal(source->bytes(), expected, [](auto a, auto b) {
                      return a == static_cast<std::uint8_t>(b);
                    });
  std::_Exit(same ? 0 : 1);
}

TEST_F(ByteSourceTest, ReadsStandardInputPlainOrCompressed) {
  ::testing::FLAGS_gtest_death_test_style = "fast";
  const std::string text = "\x80\x04" + some_text(2'500'000);
  for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
    const std::string path = file_with(bytes);
    EXPECT_EXIT(expect_standard_input(path, text), ::testing::ExitedWithCode(0), "");
  }
}

// A pipe may never end, so what is no snapshot is not read on.
TEST_F(ByteSourceTest, RefusesADeviceThatNeverEndsAtItsStart) {
  const auto source = ByteSource::open("/dev/zero");

  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kForeign);
}

TEST_F(ByteSourceTest, MovesWithItsBytes) {
  const std::string text = some_text(1000);
  auto first = ByteSource::open(file_with(text));
  ASSERT_TRUE(first);

  ByteSource second = std::move(*first);
  ByteSource third = std::move(second);

  EXPECT_EQ(third.bytes().size(), text.size());
  EXPECT_EQ(third.bytes()[999], static_cast<std::uint8_t>(text[999]));
}

// Pages that were given back are read again from the file; nothing may be lost by it.
TEST_F(ByteSourceTest, KeepsItsBytesAfterGivingBackPages) {
  const std::string text = some_text(std::size_t{20} << 20);
  auto source = ByteSource::open(file_with(text));
  ASSERT_TRUE(source);

  source->release_until(text.size());
  source->release_until(1);

  EXPECT_TRUE(std::ranges::equal(
      source->bytes(), text, [](auto a, auto b) { return a == static_cast<std::uint8_t>(b); }));
}

}  // namespace
}  // namespace fragscope::ingest
