// SPDX-License-Identifier: Apache-2.0
// The wall clock may be set while a job runs. A record's time starts from the wall clock at the
// first anchor, and from there only the monotonic clock counts.
#include "trace/ring/clock.hpp"

#include <gtest/gtest.h>

namespace fragscope::trace::test {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kStart = 1'790'000'000 * kSecond;  // In 2026, as nanoseconds.

/// Ten seconds, in which the wall clock moved by `wall_ns`.
Header ten_seconds(ClockKind clock, std::uint64_t wall_ns) {
  const std::uint64_t ticks_per_second = clock == ClockKind::kTsc ? 3 * kSecond : kSecond;
  Header header;
  header.clock = clock;
  header.first_anchor = {7 * ticks_per_second, 7 * kSecond, kStart};
  header.last_anchor = {17 * ticks_per_second, 17 * kSecond, kStart + wall_ns};
  return header;
}

/// The time of a record in the middle, in nanoseconds since the first anchor.
double middle_ns(const Header& header) {
  const std::uint64_t ticks = (header.first_anchor.ticks + header.last_anchor.ticks) / 2;
  return static_cast<double>(static_cast<std::int64_t>(unix_ns_at(header, ticks) - kStart));
}

class ClockStep : public ::testing::TestWithParam<ClockKind> {};

TEST_P(ClockStep, MovesNoRecordsTime) {
  constexpr double kExpected = 5.0 * kSecond;
  constexpr double kOnePart = 1;
  EXPECT_NEAR(middle_ns(ten_seconds(GetParam(), 10 * kSecond)), kExpected, kOnePart);
  EXPECT_NEAR(middle_ns(ten_seconds(GetParam(), 3610 * kSecond)), kExpected, kOnePart);
  EXPECT_NEAR(middle_ns(ten_seconds(GetParam(), 0)), kExpected, kOnePart);
  const std::uint64_t an_hour_back = 10 * kSecond - 3600 * kSecond;  // Wraps, and so does the sum.
  EXPECT_NEAR(middle_ns(ten_seconds(GetParam(), an_hour_back)), kExpected, kOnePart);
}

TEST_P(ClockStep, KeepsRecordsInTheirOrder) {
  const Header header = ten_seconds(GetParam(), 10 * kSecond - 3600 * kSecond);
  std::uint64_t before_ns = 0;
  for (std::uint64_t i = 0; i <= 100; ++i) {
    const std::uint64_t span = header.last_anchor.ticks - header.first_anchor.ticks;
    const std::uint64_t now_ns = unix_ns_at(header, header.first_anchor.ticks + span / 100 * i);
    EXPECT_GT(now_ns, before_ns);
    before_ns = now_ns;
  }
}

TEST_P(ClockStep, TellsRecordsApartThatAreHundredNanosecondsApart) {
  const Header header = ten_seconds(GetParam(), 10 * kSecond);
  const std::uint64_t ticks = GetParam() == ClockKind::kTsc ? 300 : 100;
  const std::uint64_t from = header.first_anchor.ticks + ticks * 12'345'678;
  EXPECT_EQ(unix_ns_at(header, from + ticks) - unix_ns_at(header, from), 100U);
}

INSTANTIATE_TEST_SUITE_P(BothClocks,
                         ClockStep,
                         ::testing::Values(ClockKind::kMonotonicNs, ClockKind::kTsc));

}  // namespace
}  // namespace fragscope::trace::test
