// SPDX-License-Identifier: Apache-2.0
#include "analyzer/verdict/evidence.hpp"

#include "tests/support/heap_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace fragscope::verdict {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::optional<Pins> pins_of(const HeapState& state,
                            const Question& question,
                            const DeviceFacts& known = facts({.free = 0}),
                            const SizeRules& rules = {}) {
  return find_pins(state, question, find_supply(state, question, rules), known);
}

std::vector<std::uint64_t> sizes_of(const Pins& pins) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(pins.blocks.size());
  for (const PinnedBlock& block : pins.blocks)
    sizes.push_back(block.size_bytes);
  return sizes;
}

// S = 24. Windows: [20, 6, ...] would move 6 for 26; [12, 4, 12] moves 4 for 28; the segment in
// front has only [10, 15]: 15 for 25. The cheapest moves 4.
TEST(Pins, AreTheCheapestWindow) {
  const HeapState state = heap({segment({hole(10_MiB), live(15_MiB)}),
                                segment({hole(20_MiB), live(6_MiB), live(50_MiB)}),
                                segment({live(50_MiB), hole(12_MiB), live(4_MiB), hole(12_MiB)})});

  const std::optional<Pins> pins = pins_of(state, failed(24_MiB));

  ASSERT_TRUE(pins);
  EXPECT_FALSE(pins->whole_segments);
  EXPECT_EQ(pins->address, state.segments[2].address + 50_MiB);
  EXPECT_EQ(pins->window_bytes, 28_MiB);
  EXPECT_EQ(pins->segments, 1U);
  EXPECT_EQ(pins->live_bytes, 4_MiB);
  EXPECT_THAT(sizes_of(*pins), ElementsAre(4_MiB));
}

// A cheaper one on another stream, in another pool, class or segment is not at home.
TEST(Pins, LieAtHome) {
  const HeapState state =
      heap({segment({hole(20_MiB), live(1_MiB), hole(20_MiB)}).on_stream(7),
            segment({hole(20_MiB), live(1_MiB), hole(20_MiB)}).in_private_pool(),
            segment({hole(20_MiB), live(3_MiB), hole(20_MiB)})});

  const std::optional<Pins> pins = pins_of(state, failed(24_MiB));

  ASSERT_TRUE(pins);
  EXPECT_EQ(pins->address, state.segments[2].address);
  EXPECT_EQ(pins->live_bytes, 3_MiB);
}

// No window reaches over a border between segments, even if they touch.
TEST(Pins, StayInsideOneSegment) {
  const HeapState state = heap(
      {segment({live(20_MiB), hole(16_MiB)}), segment({hole(16_MiB), live(20_MiB)}).after_gap(0)});

  const std::optional<Pins> pins = pins_of(state, failed(24_MiB));

  ASSERT_TRUE(pins);
  EXPECT_EQ(pins->window_bytes, 36_MiB);
  EXPECT_EQ(pins->live_bytes, 20_MiB);
}

// 10 + 2 + 3 + 9 = 24: a pending block and a live one, the larger first, each with its stack.
TEST(Pins, NameLiveAndPendingBlocksLargestFirst) {
  const HeapState state = heap({segment(
      {live(40_MiB), hole(10_MiB), by(5, live(2_MiB)), by(6, pending(3_MiB)), hole(9_MiB)})});

  const std::optional<Pins> pins = pins_of(state, failed(24_MiB));

  ASSERT_TRUE(pins);
  EXPECT_EQ(pins->live_bytes, 5_MiB);
  ASSERT_EQ(pins->blocks.size(), 2U);
  EXPECT_EQ(pins->blocks[0].size_bytes, 3_MiB);
  EXPECT_TRUE(pins->blocks[0].pending);
  EXPECT_EQ(pins->blocks[0].stack, StackId{6});
  EXPECT_EQ(pins->blocks[1].size_bytes, 2_MiB);
  EXPECT_FALSE(pins->blocks[1].pending);
  EXPECT_EQ(pins->blocks[1].stack, StackId{5});
  EXPECT_EQ(pins->blocks[1].address, state.segments[0].address + 50_MiB);
}

// Blocks of one size: by address.
TEST(Pins, NameEqualBlocksByAddress) {
  const HeapState state = heap(
      {segment({hole(10_MiB), live(2_MiB), hole(4_MiB), live(2_MiB), hole(6_MiB), live(40_MiB)})});

  const std::optional<Pins> pins = pins_of(state, failed(24_MiB));

  ASSERT_TRUE(pins);
  ASSERT_EQ(pins->blocks.size(), 2U);
  EXPECT_LT(pins->blocks[0].address, pins->blocks[1].address);
}

// The window [12, 3, 1, 12] must move 3 and 1. Elsewhere at home a hole of 3.5: it takes the 3, and
// of the rest of 0.5 nothing more. The holes inside the window do not count.
TEST(Pins, SayWhatHasAPlaceToGo) {
  const HeapState state = heap({segment({hole(12_MiB), live(3_MiB), live(1_MiB), hole(12_MiB)}),
                                segment({live(40_MiB), hole(3_MiB + 512_KiB), live(40_MiB)})});

  const std::optional<Pins> pins = pins_of(state, failed(24_MiB));

  ASSERT_TRUE(pins);
  EXPECT_EQ(pins->live_bytes, 4_MiB);
  EXPECT_EQ(pins->placeable_bytes, 3_MiB);
}

// With holes of 3 and 1 both find a place.
TEST(Pins, PlaceEachBlockInTheSmallestHoleThatTakesIt) {
  const HeapState state =
      heap({segment({hole(12_MiB), live(3_MiB), live(1_MiB), hole(12_MiB)}),
            segment({live(40_MiB), hole(3_MiB), live(40_MiB), hole(1_MiB), live(40_MiB)})});

  EXPECT_EQ(pins_of(state, failed(24_MiB))->placeable_bytes, 4_MiB);
}

// Holes of another stream are no place for blocks of this one.
TEST(Pins, PlaceNothingOutsideHome) {
  const HeapState state = heap({segment({hole(12_MiB), live(3_MiB), hole(12_MiB)}),
                                segment({live(40_MiB), hole(20_MiB)}).on_stream(7)});

  EXPECT_EQ(pins_of(state, failed(24_MiB))->placeable_bytes, 0U);
}

TEST(Pins, AreEmptyWhereAHoleServes) {
  const HeapState state = heap({segment({live(2_MiB), hole(24_MiB)})});

  EXPECT_FALSE(pins_of(state, failed(24_MiB)));
}

TEST(Pins, AreEmptyWithoutAHome) {
  const HeapState state = heap({segment({live(2_MiB), hole(24_MiB)}).on_stream(7)});

  EXPECT_FALSE(pins_of(state, failed(24_MiB)));
}

// S = need = 100, F = 30: 70 are lacking. By live share: 30 of 60 are more than 4 of 40 and 10 of
// 50; 40 + 50 = 90 >= 70. They hold 14 live.
TEST(Pins, AreWholeSegmentsWhereNoneIsLargeEnough) {
  const HeapState state = heap({segment({live(30_MiB), hole(30_MiB)}),
                                segment({by(3, live(4_MiB)), hole(36_MiB)}),
                                segment({hole(40_MiB), by(4, live(10_MiB))})});

  const std::optional<Pins> pins = pins_of(state, failed(100_MiB), facts({.free = 30_MiB}));

  ASSERT_TRUE(pins);
  EXPECT_TRUE(pins->whole_segments);
  EXPECT_EQ(pins->segments, 2U);
  EXPECT_EQ(pins->window_bytes, 90_MiB);
  EXPECT_EQ(pins->live_bytes, 14_MiB);
  EXPECT_THAT(sizes_of(*pins), ElementsAre(10_MiB, 4_MiB));
  // The hole of 30 in the segment that stays takes both.
  EXPECT_EQ(pins->placeable_bytes, 14_MiB);
}

// The fixture verdict_fragmented_across_segments in small: S = 100, F = 20, segments of 20 with 4,
// 5, 6, 7, 8 and 9 live. 80 are lacking, so the first four go.
TEST(Pins, TakeTheSegmentsWithTheFewestLiveBytes) {
  std::vector<SegmentPlan> plans;
  for (const std::uint64_t live_bytes : {9_MiB, 4_MiB, 8_MiB, 5_MiB, 7_MiB, 6_MiB})
    plans.push_back(segment({live(live_bytes), hole(20_MiB - live_bytes)}));

  const std::optional<Pins> pins = pins_of(heap(plans), failed(100_MiB), facts({.free = 20_MiB}));

  ASSERT_TRUE(pins);
  EXPECT_EQ(pins->segments, 4U);
  EXPECT_EQ(pins->window_bytes, 80_MiB);
  EXPECT_EQ(pins->live_bytes, 4_MiB + 5_MiB + 6_MiB + 7_MiB);
}

// An unknown F may be 0: all of 60 must come from segments.
TEST(Pins, TakeWholeSegmentsForAllOfTheNeedWithoutDeviceFree) {
  const HeapState state =
      heap({segment({live(2_MiB), hole(38_MiB)}), segment({live(3_MiB), hole(37_MiB)})});

  const std::optional<Pins> pins = pins_of(state, failed(60_MiB), {});

  ASSERT_TRUE(pins);
  EXPECT_EQ(pins->segments, 2U);
  EXPECT_EQ(pins->live_bytes, 5_MiB);
}

// 40 + 40 + F 10 < 100.
TEST(Pins, AreEmptyWhereAllSegmentsTogetherAreTooLittle) {
  const HeapState state =
      heap({segment({live(2_MiB), hole(38_MiB)}), segment({live(3_MiB), hole(37_MiB)})});

  EXPECT_FALSE(pins_of(state, failed(100_MiB), facts({.free = 10_MiB})));
}

TEST(Holders, AreStacksByLiveBytes) {
  const HeapState state = heap({segment({by(1, live(4_MiB)), by(2, live(6_MiB))}),
                                segment({by(1, live(5_MiB)), by(3, live(1_MiB))}).on_stream(7)});

  const std::vector<Holder> holders = find_holders(state);

  ASSERT_EQ(holders.size(), 3U);
  EXPECT_EQ(holders[0].stack, StackId{1});
  EXPECT_EQ(holders[0].bytes, 9_MiB);
  EXPECT_EQ(holders[0].blocks, 2U);
  EXPECT_EQ(holders[1].stack, StackId{2});
  EXPECT_EQ(holders[2].stack, StackId{3});
}

TEST(Holders, OfEqualBytesAreInOrderOfTheirStacks) {
  const HeapState state = heap({segment({by(9, live(4_MiB)), by(2, live(4_MiB))})});

  const std::vector<Holder> holders = find_holders(state);

  ASSERT_EQ(holders.size(), 2U);
  EXPECT_EQ(holders[0].stack, StackId{2});
}

// Pending blocks were freed by the program; holes belong to nobody.
TEST(Holders, HoldOnlyLiveBlocks) {
  const HeapState state = heap({segment({by(1, pending(4_MiB)), by(2, hole(6_MiB))})});

  EXPECT_THAT(find_holders(state), IsEmpty());
}

// S = 120, F = 20: 100 are lacking. The segment of 20 with 2 live has the lower share, but the one
// of 100 with 20 live gives all of it; then the 2 can stay.
TEST(Pins, TakeNoSegmentThatIsNotNeeded) {
  const HeapState state =
      heap({segment({live(2_MiB), hole(18_MiB)}), segment({live(20_MiB), hole(80_MiB)})});

  const std::optional<Pins> pins = pins_of(state, failed(120_MiB), facts({.free = 20_MiB}));

  ASSERT_TRUE(pins);
  EXPECT_EQ(pins->segments, 1U);
  EXPECT_EQ(pins->live_bytes, 20_MiB);
}

// S = 200, F = 180: 20 are lacking. Either segment gives them; the one of 20 with 5 live costs less
// than the one of 100 with 10 live, whose share is lower.
TEST(Pins, TakeTheSegmentThatCostsLeast) {
  const HeapState state =
      heap({segment({live(5_MiB), hole(15_MiB)}), segment({live(10_MiB), hole(90_MiB)})});

  const std::optional<Pins> pins = pins_of(state, failed(200_MiB), facts({.free = 180_MiB}));

  ASSERT_TRUE(pins);
  EXPECT_EQ(pins->live_bytes, 5_MiB);
}

// While the option is off the allocator passes over expandable segments, so a hole made there
// would not serve: the plain window with 3 live is the cheapest that could.
TEST(Pins, PassOverExpandableSegmentsWhileTheOptionIsOff) {
  const HeapState state = heap({segment({hole(10_MiB), live(1_MiB), hole(9_MiB)}).expandable(),
                                segment({hole(10_MiB), live(3_MiB), hole(7_MiB)})});

  const std::optional<Pins> pins = pins_of(state, failed(14_MiB));

  ASSERT_TRUE(pins);
  EXPECT_EQ(pins->address, state.segments[1].address);
}

}  // namespace
}  // namespace fragscope::verdict
