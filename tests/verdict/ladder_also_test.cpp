// SPDX-License-Identifier: Apache-2.0
// What is true beside the verdict: the limit, the rounding loss, a full card.
#include "analyzer/verdict/ladder.hpp"
#include "tests/support/heap_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace fragscope::verdict {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

// 40 reserved + 24 > L = 60; but the stream's hole is the verdict, since F = 0.
TEST(AlsoLimit, StandsBesideAnotherVerdict) {
  const HeapState state =
      heap({segment({live(10_MiB)}), segment({hole(24_MiB), live(6_MiB)}).on_stream(7)});

  const Judgement judged = judge_heap(state, failed(24_MiB), facts({.free = 0, .limit = 60_MiB}));

  EXPECT_EQ(verdict_of(judged), "stranded, proven");
  EXPECT_TRUE(judged.verdict.also.limit);
}

TEST(AlsoLimit, IsSilentWhereTheLimitAllowsIt) {
  const HeapState state =
      heap({segment({live(10_MiB)}), segment({hole(24_MiB), live(6_MiB)}).on_stream(7)});

  const Judgement judged = judge_heap(state, failed(24_MiB), facts({.free = 0, .limit = 64_MiB}));

  EXPECT_FALSE(judged.verdict.also.limit);
}

TEST(AlsoLimit, IsSilentWithoutALimit) {
  const HeapState state = heap({segment({live(40_MiB)})});

  EXPECT_FALSE(judge_heap(state, failed(24_MiB), facts({.free = 0})).verdict.also.limit);
}

// 60 live for 36 asked: 24 lost to rounding. need 24 - F 0 = 24 short: just covered.
TEST(AlsoRounding, IsLossThatWouldHaveCoveredTheShortage) {
  const HeapState state = heap({segment({asked_for(36_MiB, live(60_MiB))})});

  const Judgement judged = judge_heap(state, failed(24_MiB), facts({.free = 0}));

  EXPECT_EQ(verdict_of(judged), "capacity, proven");
  EXPECT_EQ(judged.verdict.short_by_bytes, 24_MiB);
  EXPECT_TRUE(judged.verdict.also.rounding);
}

// The same with 512 bytes less lost.
TEST(AlsoRounding, IsSilentWhereTheLossIsSmaller) {
  const HeapState state = heap({segment({asked_for(36_MiB + 512, live(60_MiB))})});

  EXPECT_FALSE(judge_heap(state, failed(24_MiB), facts({.free = 0})).verdict.also.rounding);
}

// Reserved 60 + 24 is 4 over L = 80; 4 are lost to rounding.
TEST(AlsoRounding, IsHeldAgainstTheLimitToo) {
  const HeapState state = heap({segment({asked_for(56_MiB, live(60_MiB))})});

  const Judgement judged =
      judge_heap(state, failed(24_MiB), facts({.free = 100_MiB, .limit = 80_MiB}));

  EXPECT_EQ(verdict_of(judged), "limit, proven");
  EXPECT_TRUE(judged.verdict.also.rounding);
}

// Fragmented: the driver lacks 14 - 2 = 12, and 12 of the live bytes are rounding.
TEST(AlsoRounding, IsHeldAgainstWhatTheDriverLacks) {
  const HeapState state =
      heap({segment({hole(10_MiB), asked_for(8_MiB, live(20_MiB)), hole(10_MiB), live(2_MiB)})});

  const Judgement judged = judge_heap(state, failed(14_MiB), facts({.free = 2_MiB}));

  EXPECT_EQ(verdict_of(judged), "fragmented, proven");
  EXPECT_TRUE(judged.verdict.also.rounding);
}

TEST(AlsoRounding, IsSilentWhereTheRequestFits) {
  const HeapState state = heap({segment({asked_for(1_MiB, live(60_MiB)), hole(30_MiB)})});

  EXPECT_FALSE(judge_heap(state, failed(24_MiB), facts({.free = 0})).verdict.also.rounding);
}

// Before PyTorch 2.0 nothing says what was asked for.
TEST(AlsoRounding, IsSilentWithoutRequestedSizes) {
  HeapState state = heap({segment({asked_for(1_MiB, live(60_MiB))})});
  state.has_requested_sizes = false;

  EXPECT_FALSE(judge_heap(state, failed(24_MiB), facts({.free = 0})).verdict.also.rounding);
}

// T = 100: 90 live are nine tenths, 512 bytes less are not.
TEST(AlsoCapacityPressure, StartsAtNineTenthsOfTheCard) {
  const auto judge_live = [](std::uint64_t live_bytes) {
    return judge_heap(
        heap({segment({live(live_bytes)})}), failed(24_MiB), facts({.free = 0, .total = 100_MiB}));
  };

  EXPECT_TRUE(judge_live(90_MiB).verdict.also.capacity_pressure);
  EXPECT_FALSE(judge_live(90_MiB - 512).verdict.also.capacity_pressure);
}

// T unknown: 100 reserved + F 20 = 120, nine tenths are 108 > 100; with F = 10 they are 99.
TEST(AlsoCapacityPressure, TakesReservedAndFreeForTheCardWithoutATotal) {
  const HeapState state = heap({segment({live(100_MiB)})});

  EXPECT_FALSE(
      judge_heap(state, failed(24_MiB), facts({.free = 20_MiB})).verdict.also.capacity_pressure);
  EXPECT_TRUE(
      judge_heap(state, failed(24_MiB), facts({.free = 10_MiB})).verdict.also.capacity_pressure);
}

TEST(AlsoCapacityPressure, IsSilentWithoutFreeAndTotal) {
  EXPECT_FALSE(judge_heap(heap({segment({live(100_MiB)})}), failed(24_MiB), {})
                   .verdict.also.capacity_pressure);
}

// A megabyte fails beside a hole of the large class; 97 of 100 are live. Stranded by class, but
// first of all a full card, and the text says so.
TEST(AlsoCapacityPressure, IsSaidOfATinyRequestOnAFullCard) {
  const HeapState state = heap({segment({live(97_MiB), hole(2_MiB)})});

  const Judgement judged =
      judge_heap(state, failed(1_MiB), facts({.free = 1_MiB, .total = 100_MiB}));

  EXPECT_EQ(verdict_of(judged), "stranded, proven");
  EXPECT_TRUE(judged.verdict.also.capacity_pressure);
  EXPECT_THAT(judged.verdict.text, HasSubstr("First of all the card is full"));
}

}  // namespace
}  // namespace fragscope::verdict
