// SPDX-License-Identifier: Apache-2.0
// Advice is given only where the numbers show that it works, and carries those numbers.
#include "analyzer/verdict/advice.hpp"

#include "tests/support/heap_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::verdict {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;

std::vector<Advice> advice_for(const HeapState& state,
                               const Question& question,
                               const DeviceFacts& known,
                               const SizeRules& rules = {}) {
  const Supply supply = find_supply(state, question, rules);
  return find_advice(question,
                     supply,
                     known,
                     judge_heap(state, question, known, rules),
                     find_pins(state, question, supply, known));
}

Matcher<const Advice&> says(const std::string& text, const std::string& shown_by) {
  return AllOf(Field("text", &Advice::text, HasSubstr(text)),
               Field("shown_by", &Advice::shown_by, HasSubstr(shown_by)));
}

// F 20 + 30 releasable = 50 >= 40.
TEST(Advice, GivesTheCacheBackWhereThatIsEnough) {
  const HeapState state = heap({segment({live(40_MiB)}), segment({hole(30_MiB)})});

  EXPECT_THAT(advice_for(state, asked(40_MiB), facts({.free = 20_MiB})),
              ElementsAre(says("before the request", "50.00 MiB >= 40.00 MiB")));
}

// PyTorch gives its cache back itself before it fails, save in a capture, where it skips
// empty_cache() as well.
TEST(Advice, GivesTheCacheBackBeforeACapture) {
  const HeapState state = heap({segment({live(40_MiB)}), segment({hole(30_MiB)})});

  EXPECT_THAT(advice_for(state, failed(40_MiB), facts({.free = 20_MiB})),
              ElementsAre(says("before the graph capture", "50.00 MiB >= 40.00 MiB")));
}

// Reserved 40 + 24 = 64.
TEST(Advice, RaisesTheLimitToWhatServes) {
  const HeapState state = heap({segment({live(40_MiB)})});

  EXPECT_THAT(advice_for(state, failed(24_MiB), facts({.free = 100_MiB, .limit = 60_MiB})),
              ElementsAre(says("64.00 MiB", "against a limit of 60.00 MiB")));
}

TEST(Advice, NamesTheWayToAStrandedHole) {
  const HeapState stream = heap({segment({hole(30_MiB), live(2_MiB)}).on_stream(7)});
  const HeapState pool = heap({segment({hole(30_MiB), live(2_MiB)}).in_private_pool()});
  const HeapState waiting = heap({segment({pending(30_MiB), live(2_MiB)})});
  const HeapState off = heap({segment({hole(30_MiB), live(10_MiB)}).expandable()});
  const DeviceFacts full = facts({.free = 0});
  const std::string hole_bytes = "30.00 MiB >= 24.00 MiB";

  EXPECT_THAT(advice_for(stream, failed(24_MiB), full), ElementsAre(says("stream", hole_bytes)));
  EXPECT_THAT(advice_for(pool, failed(24_MiB), full), ElementsAre(says("pool", hole_bytes)));
  EXPECT_THAT(advice_for(waiting, asked(24_MiB), full),
              ElementsAre(says("synchronize", hole_bytes)));
  EXPECT_THAT(advice_for(waiting, failed(24_MiB), full),
              ElementsAre(says("let the graph capture", hole_bytes)));
  EXPECT_THAT(advice_for(off, failed(24_MiB), full),
              ElementsAre(says("expandable_segments", hole_bytes)));
}

TEST(Advice, UnsetsMaxSplitSizeWhereItForbidsTheHole) {
  SizeRules rules;
  rules.max_split_size = 64_MiB;
  const HeapState state = heap({segment({hole(80_MiB), live(2_MiB)})});

  EXPECT_THAT(advice_for(state, failed(24_MiB), facts({.free = 0}), rules),
              ElementsAre(says("max_split_size_mb", "80.00 MiB >= 24.00 MiB")));
}

// S = 14: [10, 2] is too short, so the window is [10, 2, 10], a hole of 22 once the 2 are gone.
TEST(Advice, FreesThePinsOfAFragmentedHome) {
  const HeapState state = heap({segment({hole(10_MiB), live(2_MiB), hole(10_MiB), live(20_MiB)})});

  EXPECT_THAT(advice_for(state, failed(14_MiB), facts({.free = 0})),
              ElementsAre(says("2.00 MiB in the pins", "22.00 MiB >= 14.00 MiB")));
}

// Short by 2 GiB: 4 GiB less 2 free.
TEST(Advice, WantsLessMemoryUsedOutside) {
  const HeapState state = heap({segment({live(70_GiB)})});

  EXPECT_THAT(advice_for(state, failed(4_GiB), facts({.free = 2_GiB, .total = 80_GiB})),
              ElementsAre(says("2.00 GiB less used outside", "2.00 GiB of 4.00 GiB")));
}

TEST(Advice, WantsLessMemoryUsedOnAFullCard) {
  const HeapState state = heap({segment({live(77_GiB)})});

  EXPECT_THAT(advice_for(state, failed(4_GiB), facts({.free = 1_GiB, .total = 80_GiB})),
              ElementsAre(says("3.00 GiB less", "1.00 GiB of 4.00 GiB")));
}

TEST(Advice, WantsALargerDeviceForTheImpossible) {
  EXPECT_THAT(advice_for(heap({}), asked(100_GiB), facts({.free = 79_GiB, .total = 80_GiB})),
              ElementsAre(says("larger device", "100.00 GiB needed, 80.00 GiB on the device")));
}

// Nothing shows what would help: no advice.
TEST(Advice, IsSilentWhereNothingIsShown) {
  const HeapState full = heap({segment({live(40_MiB)})});
  const HeapState fits = heap({segment({live(2_MiB), hole(30_MiB)})});

  EXPECT_THAT(advice_for(full, asked(24_MiB), {}), IsEmpty());
  EXPECT_THAT(advice_for(fits, failed(24_MiB), facts({.free = 0})), IsEmpty());
  EXPECT_THAT(advice_for(full, failed(24_MiB), facts({.free = 56_MiB})), IsEmpty());
}

// Freeing the pins makes a hole of S; on a full card with other verdicts it is not the advice.
TEST(Advice, NamesThePinsOnlyWhereMovingHelps) {
  const HeapState state = heap({segment({live(40_MiB)}), segment({live(30_MiB)})});

  for (const Advice& advice : advice_for(state, failed(24_MiB), facts({.free = 0})))
    EXPECT_THAT(advice.text, Not(HasSubstr("pins")));
}

// 60 live for 36 asked: without the rounding the 24 would fit, and rounding is a setting.
TEST(Advice, DoesNotDenyTheSettingsWhereRoundingTookTheMemory) {
  const HeapState state = heap({segment({asked_for(36_MiB, live(60_MiB))})});

  for (const Advice& advice : advice_for(state, failed(24_MiB), facts({.free = 0})))
    EXPECT_THAT(advice.text, Not(HasSubstr("no allocator setting")));
}

// The hole belongs to another stream and to a private pool. Changing one alone does not open it, so
// one piece of advice must say both.
TEST(Advice, JoinsTheBarriersOfOneHole) {
  const HeapState state =
      heap({segment({hole(30_MiB), live(2_MiB)}).in_private_pool().on_stream(7)});

  EXPECT_LE(advice_for(state, failed(24_MiB), facts({.free = 0})).size(), 1U);
}

}  // namespace
}  // namespace fragscope::verdict
