// SPDX-License-Identifier: Apache-2.0
#include "analyzer/verdict/supply.hpp"

#include "tests/support/heap_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace fragscope::verdict {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

Supply expandable_supply(const HeapState& state, const Question& question) {
  return find_supply(state, question, expandable_rules());
}

// Home is stream 0, class large, default pool: 8 + 6 free, 3 pending. Elsewhere 30 + 1 + 40 free.
TEST(Supply, TellsHomeFromTheRest) {
  const HeapState state = heap({segment({live(20_MiB), hole(8_MiB), pending(3_MiB)}),
                                segment({hole(6_MiB), live(2_MiB)}),
                                segment({hole(30_MiB), live(2_MiB)}).on_stream(7),
                                segment({hole(1_MiB), live(1_MiB)}).of_class_small(),
                                segment({hole(40_MiB), live(2_MiB)}).in_private_pool()});

  const Supply supply = find_supply(state, failed(12_MiB), {});

  EXPECT_EQ(supply.reserved_bytes, 31_MiB + 8_MiB + 32_MiB + 2_MiB + 42_MiB);
  EXPECT_EQ(supply.live_bytes, model::exactly(20_MiB + 2_MiB + 2_MiB + 1_MiB + 2_MiB));
  EXPECT_EQ(supply.home_free_bytes, model::exactly(14_MiB));
  EXPECT_EQ(supply.home_pending_bytes, model::exactly(3_MiB));
  EXPECT_EQ(supply.largest_hole_bytes, model::exactly(8_MiB));
  EXPECT_EQ(supply.free_bytes, model::exactly(14_MiB + 30_MiB + 1_MiB + 40_MiB));
  EXPECT_EQ(supply.pending_bytes, model::exactly(3_MiB));
}

// The hole of 20 +- 1 is [19, 20], the live block in front of it [10, 11].
TEST(Supply, KeepsBoundsOfSizes) {
  const HeapState state =
      heap({segment({give_or_take(1_MiB, live(10_MiB)), give_or_take(1_MiB, hole(20_MiB))})});

  const Supply supply = find_supply(state, failed(12_MiB), {});

  EXPECT_EQ(supply.live_bytes, (Bounds{10_MiB, 11_MiB}));
  EXPECT_EQ(supply.free_bytes, (Bounds{19_MiB, 20_MiB}));
  EXPECT_EQ(supply.largest_hole_bytes, (Bounds{19_MiB, 20_MiB}));
}

// Wholly free: 20 on stream 7, 2 of class small, 30 pending. Pinned: 28 behind 2 live.
TEST(Supply, CountsWhollyFreeSegmentsOfAllStreamsAndClassesAsReleasable) {
  const HeapState state = heap({segment({hole(20_MiB)}).on_stream(7),
                                segment({hole(2_MiB)}).of_class_small(),
                                segment({hole(10_MiB), pending(20_MiB)}),
                                segment({live(2_MiB), hole(28_MiB)})});

  const Supply supply = find_supply(state, failed(40_MiB), {});

  EXPECT_EQ(supply.releasable_bytes, model::exactly(52_MiB));
  EXPECT_EQ(supply.home_releasable_bytes, 30_MiB);
}

// A failure released what nobody held; what is still there is held.
TEST(Supply, TakesPrivatePoolsAsHeldAtARecordedFailure) {
  const HeapState state = heap({segment({hole(20_MiB)}).in_private_pool()});

  EXPECT_EQ(find_supply(state, failed(40_MiB), {}).releasable_bytes, model::exactly(0));
}

TEST(Supply, CannotTellWhoHoldsAPrivatePoolWhenAsked) {
  const HeapState state = heap({segment({hole(20_MiB)}).in_private_pool(), segment({hole(6_MiB)})});

  EXPECT_EQ(find_supply(state, asked(40_MiB), {}).releasable_bytes, (Bounds{6_MiB, 26_MiB}));
}

// Two ranges of 40: [5 live, 35 free] frees the page from 20 to 40; [15 free, 5 live, 20 free] too
// frees one, since its first page holds the live block.
TEST(Supply, CountsPagesWhollyInsideHolesOfExpandableSegments) {
  const HeapState state = heap({segment({live(5_MiB), hole(35_MiB)}).expandable(),
                                segment({hole(15_MiB), live(5_MiB), hole(20_MiB)}).expandable()});

  EXPECT_EQ(expandable_supply(state, failed(60_MiB)).releasable_bytes, model::exactly(40_MiB));
}

// Small pages are 2 MiB: of [0.5 live, 5.5 free] the two from 2 to 6.
TEST(Supply, CountsSmallPagesOfTwoMebibytes) {
  const HeapState state =
      heap({segment({live(512_KiB), hole(5_MiB + 512_KiB)}).of_class_small().expandable()});

  EXPECT_EQ(expandable_supply(state, failed(60_MiB)).releasable_bytes, model::exactly(4_MiB));
}

TEST(Need, IsTheDeviceAllocationOfAPlainRequest) {
  const auto need_of = [](std::uint64_t size_bytes) {
    return find_supply(heap({}), failed(size_bytes), {}).need_now_bytes;
  };

  EXPECT_EQ(need_of(512), 2_MiB);
  EXPECT_EQ(need_of(1_MiB), 2_MiB);
  EXPECT_EQ(need_of(3_MiB), 20_MiB);
  EXPECT_EQ(need_of(10_MiB), 10_MiB);
  EXPECT_EQ(need_of(11_MiB), 12_MiB);
}

// No segment yet: 3 and 20 take one page of 20, 21 take two; 512 KiB one of 2.
TEST(Need, IsWholePagesOfAnExpandableRequest) {
  const auto need_of = [](std::uint64_t size_bytes) {
    return expandable_supply(heap({}), failed(size_bytes)).need_now_bytes;
  };

  EXPECT_EQ(need_of(512_KiB), 2_MiB);
  EXPECT_EQ(need_of(3_MiB), 20_MiB);
  EXPECT_EQ(need_of(20_MiB), 20_MiB);
  EXPECT_EQ(need_of(21_MiB), 40_MiB);
}

// S = 50 behind a tail of 12: 38 are lacking, two pages.
TEST(Need, IsLessTheFreeTailOfTheLastRange) {
  const HeapState state = heap({segment({live(8_MiB), hole(12_MiB)}).expandable()});

  EXPECT_EQ(expandable_supply(state, failed(50_MiB)).need_now_bytes, 40_MiB);
}

// S = 1 MiB behind a tail of 0.5 of class small: 0.5 are lacking, one page of 2.
TEST(Need, UsesSmallPagesForSmallRequests) {
  const HeapState state =
      heap({segment({live(1_MiB + 512_KiB), hole(512_KiB)}).of_class_small().expandable()});

  EXPECT_EQ(expandable_supply(state, failed(1_MiB)).need_now_bytes, 2_MiB);
}

// The option is on, but other homes' tails do not help: three pages for 50.
TEST(Need, IgnoresTailsOfOtherHomes) {
  const HeapState state =
      heap({segment({live(8_MiB), hole(12_MiB)}).expandable().on_stream(7),
            segment({live(8_MiB), hole(12_MiB)}).expandable().in_private_pool()});

  EXPECT_EQ(expandable_supply(state, failed(50_MiB)).need_now_bytes, 60_MiB);
}

// A hole in the middle is not next to unmapped space.
TEST(Need, IgnoresHolesInTheMiddle) {
  const HeapState state = heap({segment({hole(12_MiB), live(8_MiB)}).expandable()});

  EXPECT_EQ(expandable_supply(state, failed(50_MiB)).need_now_bytes, 60_MiB);
}

// Pending bytes at the end keep the tail from being next to unmapped space.
TEST(Need, StopsTheTailAtAPendingBlock) {
  const HeapState state = heap({segment({live(8_MiB), hole(2_MiB), pending(10_MiB)}).expandable()});

  EXPECT_EQ(expandable_supply(state, failed(50_MiB)).need_now_bytes, 60_MiB);
}

// The fixture trap_expandable_middle_gap: S = 110, 10 free in front of a gap of 180. 100 are
// lacking, five pages.
TEST(Need, FillsAnUnmappedGapInTheMiddle) {
  const HeapState state = heap({segment({live(210_MiB), hole(10_MiB)}).expandable(),
                                segment({live(200_MiB)}).expandable().after_gap(180_MiB)});

  EXPECT_EQ(expandable_supply(state, failed(110_MiB)).need_now_bytes, 100_MiB);
}

// S = 50: 5 in front of the gap, 20 of gap, 15 at the head of the next range make 40, and then a
// live block comes. So the tail of the last range: 50 - 10 = 40.
TEST(Need, PassesAGapThatIsTooSmall) {
  const HeapState state =
      heap({segment({live(15_MiB), hole(5_MiB)}).expandable(),
            segment({hole(15_MiB), live(15_MiB), hole(10_MiB)}).expandable().after_gap(20_MiB)});

  EXPECT_EQ(expandable_supply(state, failed(50_MiB)).need_now_bytes, 40_MiB);
}

// S = 40: 5 + 20 + 15 = 40 fit exactly, and only the gap must be mapped.
TEST(Need, MapsTheGapBetweenTwoHoles) {
  const HeapState state =
      heap({segment({live(15_MiB), hole(5_MiB)}).expandable(),
            segment({hole(15_MiB), live(25_MiB)}).expandable().after_gap(20_MiB)});

  EXPECT_EQ(expandable_supply(state, failed(40_MiB)).need_now_bytes, 20_MiB);
}

// S = 70 over a wholly free range: 5 + 20 of gap + 20 free, and 25 of the space behind: 20 + 40.
TEST(Need, GoesOnBehindAWhollyFreeRange) {
  const HeapState state = heap({segment({live(15_MiB), hole(5_MiB)}).expandable(),
                                segment({hole(20_MiB)}).expandable().after_gap(20_MiB)});

  EXPECT_EQ(expandable_supply(state, failed(70_MiB)).need_now_bytes, 60_MiB);
}

// The allocator takes the first place by address: the gap behind the first range (S = 30: two
// pages), although the tail of the last one would need only one.
TEST(Need, TakesTheFirstPlaceByAddress) {
  const HeapState state =
      heap({segment({live(20_MiB)}).expandable(),
            segment({live(5_MiB), hole(15_MiB)}).expandable().after_gap(40_MiB)});

  EXPECT_EQ(expandable_supply(state, failed(30_MiB)).need_now_bytes, 40_MiB);
}

// The tail of 32 loses its whole page to the release and keeps 12: S = 50 lacks 38 then, 18 before.
TEST(Need, AfterAReleaseKeepsOnlyPartOfAPageAtTheTail) {
  const HeapState state = heap({segment({live(8_MiB), hole(32_MiB)}).expandable()});

  const Supply supply = expandable_supply(state, failed(50_MiB));

  EXPECT_EQ(supply.need_now_bytes, 20_MiB);
  EXPECT_EQ(supply.releasable_bytes, model::exactly(20_MiB));
  EXPECT_EQ(supply.need_released_bytes, 40_MiB);
}

// Where all of home counts as free bytes the tail is one of them: 50 and not the 40 that it lacks.
TEST(Need, OfRemappingDoesNotCountTheTailTwice) {
  const HeapState state = heap({segment({live(8_MiB), hole(12_MiB)}).expandable()});

  EXPECT_EQ(expandable_supply(state, failed(50_MiB)).need_whole_bytes, 50_MiB);
}

// S = 50 maps 40, but the limit is held against the device allocation of 50.
TEST(Need, AgainstTheLimitIsTheDeviceAllocationEvenIfExpandable) {
  const HeapState state = heap({segment({live(8_MiB), hole(12_MiB)}).expandable()});

  const Supply supply = expandable_supply(state, failed(50_MiB));

  EXPECT_EQ(supply.need_now_bytes, 40_MiB);
  EXPECT_EQ(supply.limit_need_bytes, 50_MiB);
}

// [5 live, 30 pending, 5 free], pages of 20, S = 30. Once the events are waited for, the run is
// 35; its page from 20 to 40 goes back and 15 stay next to it: 15 are lacking, one page.
TEST(Need, AfterAReleaseCountsPendingBytesAtTheTail) {
  const HeapState state = heap({segment({live(5_MiB), pending(30_MiB), hole(5_MiB)}).expandable()});

  const Supply supply = expandable_supply(state, failed(30_MiB));

  EXPECT_EQ(supply.need_now_bytes, 40_MiB);
  EXPECT_EQ(supply.releasable_bytes, model::exactly(20_MiB));
  EXPECT_EQ(supply.need_released_bytes, 20_MiB);
}

// 10 free in front of a gap of 20, the range behind it is full. S = 30: the gap is lacking, before
// a release and, since no whole page is free, after it.
TEST(Need, AfterAReleaseStillFillsTheGap) {
  const HeapState state = heap({segment({live(10_MiB), hole(10_MiB)}).expandable(),
                                segment({live(20_MiB)}).expandable().after_gap(20_MiB)});

  const Supply supply = expandable_supply(state, failed(30_MiB));

  EXPECT_EQ(supply.need_now_bytes, 20_MiB);
  EXPECT_EQ(supply.need_released_bytes, 20_MiB);
}

// The other way round: the allocator takes the gap of 40 behind the first range (two pages for
// S = 30). Nothing can be released, so it takes the same place afterwards.
TEST(Need, AfterAReleaseOfNothingIsTheSame) {
  const HeapState state =
      heap({segment({live(20_MiB)}).expandable(),
            segment({live(5_MiB), hole(15_MiB)}).expandable().after_gap(40_MiB)});

  const Supply supply = expandable_supply(state, failed(30_MiB));

  EXPECT_EQ(supply.releasable_bytes, model::exactly(0));
  EXPECT_EQ(supply.need_now_bytes, 40_MiB);
  EXPECT_EQ(supply.need_released_bytes, 40_MiB);
}

}  // namespace
}  // namespace fragscope::verdict
