// SPDX-License-Identifier: Apache-2.0
#include "analyzer/logtext/time_stamp.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace fragscope::logtext {
namespace {

constexpr std::int64_t kDay = 86'400'000;
constexpr std::int64_t kTenOClock = 36'000'000;
// 2025-01-31, the 20,119th day after 1970-01-01.
constexpr std::int64_t kDate = 20'119 * kDay;

/// The stamp that is the whole of `text`, followed by the rest of a line.
void expect_stamp(std::string_view text, std::int64_t ms, TimeOrigin origin) {
  const std::string line = std::string(text) + " and more";
  const auto stamp = read_time_stamp(line);
  ASSERT_TRUE(stamp) << text;
  EXPECT_EQ(stamp->ms, ms) << text;
  EXPECT_EQ(stamp->origin, origin) << text;
  EXPECT_EQ(stamp->length, text.size()) << text;
}

TEST(TimeStamp, ReadsADateWithYear) {
  expect_stamp("2025-01-31 10:00:00", kDate + kTenOClock, TimeOrigin::kEpoch);
  expect_stamp("2025/01/31 10:00:00.5", kDate + kTenOClock + 500, TimeOrigin::kEpoch);
  expect_stamp("2025-01-31 10:00:00,123", kDate + kTenOClock + 123, TimeOrigin::kEpoch);
  expect_stamp("2025-01-31T10:00:00.123456Z", kDate + kTenOClock + 123, TimeOrigin::kEpoch);
  expect_stamp("2025-01-31, 10:00:00 UTC", kDate + kTenOClock, TimeOrigin::kEpoch);
  expect_stamp("01/31/2025-10:00:00", kDate + kTenOClock, TimeOrigin::kEpoch);
}

TEST(TimeStamp, PassesTheZoneButDoesNotApplyIt) {
  expect_stamp("2025-01-31T10:00:00+02:00", kDate + kTenOClock, TimeOrigin::kEpoch);
  expect_stamp("2025-01-31 10:00:00.000-0500", kDate + kTenOClock, TimeOrigin::kEpoch);
}

TEST(TimeStamp, CountsFromTheStartOfTheYearWithoutOne) {
  expect_stamp("01-31 10:00:00", 30 * kDay + kTenOClock, TimeOrigin::kYear);
  expect_stamp("Jan 31 10:00:00", 30 * kDay + kTenOClock, TimeOrigin::kYear);
  expect_stamp("Jan  3 10:00:00", 2 * kDay + kTenOClock, TimeOrigin::kYear);
  expect_stamp("E0131 10:00:00.250000", 30 * kDay + kTenOClock + 250, TimeOrigin::kYear);
}

TEST(TimeStamp, CountsFromMidnightWithoutADate) {
  expect_stamp("10:00:00", kTenOClock, TimeOrigin::kDay);
}

TEST(TimeStamp, ReadsTheRunningTimeOfLlamaCpp) {
  expect_stamp("0.12.345.678", 12'345, TimeOrigin::kProgram);
  expect_stamp("125.07.000.999", 125 * 60'000 + 7'000, TimeOrigin::kProgram);
}

TEST(TimeStamp, TakesNothingElseForOne) {
  for (const std::string_view text : {"",
                                      "10:00",
                                      "24:00:00 ",
                                      "10:60:00 ",
                                      "2025-13-01 10:00:00",
                                      "2025-01-31",
                                      "20250-01-31 10:00:00",
                                      "Janet 31 10:00:00",
                                      "X0131 10:00:00",
                                      "1.2.3.4 address",
                                      "10.20.300.400",
                                      "0.99.345.678 ",
                                      "100:00:00"}) {
    EXPECT_FALSE(read_time_stamp(text)) << text;
  }
}

}  // namespace
}  // namespace fragscope::logtext
