// SPDX-License-Identifier: Apache-2.0
#include "analyzer/recording/byte_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

namespace fragscope::model {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGiB = 1024 * kMiB;

TEST(ShowBytes, ChangesTheUnitWhereItReadsBetter) {
  EXPECT_EQ(show_bytes(0), "0 B");
  EXPECT_EQ(show_bytes(1023), "1023 B");
  EXPECT_EQ(show_bytes(kKiB), "1.00 KiB");
  EXPECT_EQ(show_bytes(1536), "1.50 KiB");
  EXPECT_EQ(show_bytes(kMiB - 6), "1023.99 KiB");
  EXPECT_EQ(show_bytes(kMiB - 1), "1.00 MiB");
  EXPECT_EQ(show_bytes(kMiB), "1.00 MiB");
  EXPECT_EQ(show_bytes(20 * kMiB), "20.00 MiB");
  EXPECT_EQ(show_bytes(kGiB - 1), "1.00 GiB");
  EXPECT_EQ(show_bytes(1024 * kGiB), "1.00 TiB");
  EXPECT_EQ(show_bytes(std::numeric_limits<std::uint64_t>::max()), "16777216.00 TiB");
}

TEST(ShowCount, GroupsThreeDigits) {
  EXPECT_EQ(show_count(0), "0");
  EXPECT_EQ(show_count(999), "999");
  EXPECT_EQ(show_count(1000), "1,000");
  EXPECT_EQ(show_count(4194304), "4,194,304");
  EXPECT_EQ(show_count(std::numeric_limits<std::uint64_t>::max()), "18,446,744,073,709,551,615");
}

TEST(ParseBytes, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_bytes("0"), 0U);
  EXPECT_EQ(parse_bytes("20971520"), 20 * kMiB);
  EXPECT_EQ(parse_bytes("512MiB"), 512 * kMiB);
  EXPECT_EQ(parse_bytes("512 MiB"), 512 * kMiB);
  EXPECT_EQ(parse_bytes("1.5G"), kGiB + kGiB / 2);
  EXPECT_EQ(parse_bytes("7k"), 7 * kKiB);
  EXPECT_EQ(parse_bytes("2T"), 2048 * kGiB);
  EXPECT_EQ(parse_bytes("100B"), 100U);
  EXPECT_EQ(parse_bytes("4.94GiB"), 5304284611U);  // 4.94 * 2^30 = 5304284610.56
}

TEST(ParseBytes, KeepsWholeNumbersExact) {
  EXPECT_EQ(parse_bytes("9007199254740993"), 9007199254740993U);  // 2^53 + 1, no double
  EXPECT_EQ(parse_bytes("9100000000000000001"), 9100000000000000001U);
}

TEST(ParseBytes, RefusesEverythingElse) {
  for (const std::string_view text : {"",
                                      " ",
                                      "x",
                                      "GiB",
                                      "-1",
                                      "-1GiB",
                                      "nan",
                                      "inf",
                                      "1e400",
                                      "1 apple",
                                      "1MiBx",
                                      "1Mi",
                                      "1M iB",
                                      "512XiB",
                                      "1..5GiB",
                                      "9.3e18",
                                      "8388608TiB",
                                      "99999999999999999999"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed) << "'" << text << "' gave " << *parsed;
    EXPECT_EQ(parsed.error().code, ErrorCode::kUsage);
    EXPECT_THAT(parsed.error().message, HasSubstr("is no size"));
  }
}

TEST(ParseBytes, RefusesDecimalUnitsAndNamesTheBinaryOnes) {
  for (const std::string_view text : {"1GB", "1 MB", "5kB", "1gb"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("KiB, MiB or GiB"));
  }
}

}  // namespace
}  // namespace fragscope::model
