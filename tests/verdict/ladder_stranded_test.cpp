// SPDX-License-Identifier: Apache-2.0
// Rung 5, holes that are large enough but not for this request, and what rung 1 refuses although
// it is large enough. F = 0 everywhere, so that no earlier rung fits; sizes are MiB.
#include "analyzer/verdict/ladder.hpp"
#include "tests/support/heap_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace fragscope::verdict {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Judgement judge_full_card(const HeapState& state,
                          const Question& question,
                          const SizeRules& rules = {}) {
  return judge_heap(state, question, facts({.free = 0}), rules);
}

SizeRules max_split_rules(std::uint64_t max_split_size) {
  SizeRules rules;
  rules.max_split_size = max_split_size;
  return rules;
}

TEST(Stranded, ByStream) {
  const HeapState state = heap({segment({hole(30_MiB), live(2_MiB)}).on_stream(7)});

  const Judgement judged = judge_full_card(state, failed(24_MiB));

  EXPECT_EQ(verdict_of(judged), "stranded, proven");
  EXPECT_EQ(rungs_of(judged), "nnnnyyyyy");
  EXPECT_THAT(judged.verdict.stranded_by, ElementsAre("stream"));
  EXPECT_EQ(rung_of(judged, 5).bytes, model::exactly(30_MiB));
  EXPECT_EQ(rung_of(judged, 5).need_bytes, 24_MiB);
}

// A question is judged alike.
TEST(Stranded, ByStreamWhenAsked) {
  const HeapState state = heap({segment({hole(30_MiB), live(2_MiB)}).on_stream(7)});

  const Judgement judged = judge_full_card(state, asked(24_MiB));

  EXPECT_EQ(verdict_of(judged), "stranded, proven");
  EXPECT_THAT(judged.verdict.stranded_by, ElementsAre("stream"));
}

// The hole is for its own stream; the request comes from 7 now.
TEST(Stranded, NotByTheRequestsOwnStream) {
  const HeapState state = heap({segment({hole(30_MiB), live(2_MiB)}).on_stream(7)});
  Question question = failed(24_MiB);
  question.stream = 7;

  EXPECT_EQ(verdict_of(judge_full_card(state, question)), "servable, proven");
}

// 1 MiB is the last small size; the hole belongs to the large class.
TEST(Stranded, ByClass) {
  const HeapState state = heap({segment({hole(30_MiB), live(2_MiB)})});

  const Judgement judged = judge_full_card(state, failed(1_MiB));

  EXPECT_EQ(verdict_of(judged), "stranded, proven");
  EXPECT_THAT(judged.verdict.stranded_by, ElementsAre("class"));
}

TEST(Stranded, ByPool) {
  const HeapState state = heap({segment({hole(30_MiB), live(2_MiB)}).in_private_pool()});

  const Judgement judged = judge_full_card(state, failed(24_MiB));

  EXPECT_EQ(verdict_of(judged), "stranded, proven");
  EXPECT_THAT(judged.verdict.stranded_by, ElementsAre("pool"));
}

// The other way round: a request of a private pool, a hole in the default pool.
TEST(Stranded, ByPoolFromInsideAPrivateOne) {
  const HeapState state = heap({segment({hole(30_MiB), live(2_MiB)})});
  Question question = failed(24_MiB);
  question.pool = kPrivatePool;

  EXPECT_THAT(judge_full_card(state, question).verdict.stranded_by, ElementsAre("pool"));
}

// 8 free + 10 pending + 8 free are one hole of 26 once the event has completed.
TEST(Stranded, ByPendingMergedWithItsNeighbours) {
  const HeapState state =
      heap({segment({live(2_MiB), hole(8_MiB), pending(10_MiB), hole(8_MiB), live(2_MiB)})});

  const Judgement judged = judge_full_card(state, failed(24_MiB));

  EXPECT_EQ(verdict_of(judged), "stranded, proven");
  EXPECT_THAT(judged.verdict.stranded_by, ElementsAre("pending"));
  EXPECT_EQ(rung_of(judged, 5).bytes, model::exactly(26_MiB));
}

TEST(Stranded, NotByPendingAcrossALiveBlock) {
  const HeapState state =
      heap({segment({hole(8_MiB), live(2_MiB), pending(10_MiB), hole(8_MiB), live(2_MiB)})});

  const Judgement judged = judge_full_card(state, failed(24_MiB));

  EXPECT_EQ(rung_of(judged, 5).fits, Fits::kNo);
  EXPECT_EQ(rung_of(judged, 5).bytes, model::exactly(0));
}

// Two segments side by side never merge.
TEST(Stranded, NotByPendingAcrossSegments) {
  const HeapState state = heap({segment({live(2_MiB), pending(14_MiB)}),
                                segment({pending(14_MiB), live(2_MiB)}).after_gap(0)});

  EXPECT_EQ(rung_of(judge_full_card(state, failed(24_MiB)), 5).fits, Fits::kNo);
}

// max_split_size 64: a hole of 80 is oversize, S = 24 is not.
TEST(Stranded, ByOversizeBelowMaxSplitSize) {
  const HeapState state = heap({segment({hole(80_MiB), live(2_MiB)})});

  const Judgement judged = judge_full_card(state, failed(24_MiB), max_split_rules(64_MiB));

  EXPECT_EQ(verdict_of(judged), "stranded, proven");
  EXPECT_EQ(rungs_of(judged), "nnnnyyyyy");
  EXPECT_THAT(judged.verdict.stranded_by, ElementsAre("oversize"));
}

// S = 64 is oversize itself: a hole of 84 would waste 20, the default of max_non_split_rounding.
TEST(Stranded, ByOversizeFromMaxSplitSizeOn) {
  const HeapState wasteful = heap({segment({hole(84_MiB), live(2_MiB)})});
  const HeapState tighter = heap({segment({hole(84_MiB - 512), live(2_MiB)})});

  const Judgement judged = judge_full_card(wasteful, failed(64_MiB), max_split_rules(64_MiB));

  EXPECT_THAT(judged.verdict.stranded_by, ElementsAre("oversize"));
  EXPECT_EQ(verdict_of(judge_full_card(tighter, failed(64_MiB), max_split_rules(64_MiB))),
            "servable, proven");
}

// Best fit takes the hole of 30; the oversize one of 80 is never tried.
TEST(OversizeRules, LookAtTheBestFitOnly) {
  const HeapState state =
      heap({segment({hole(80_MiB), live(2_MiB)}), segment({hole(30_MiB), live(2_MiB)})});

  EXPECT_EQ(verdict_of(judge_full_card(state, failed(24_MiB), max_split_rules(64_MiB))),
            "servable, proven");
}

// The option is off now: the allocator passes over expandable segments.
TEST(Stranded, ByExpandableWhileTheOptionIsOff) {
  const HeapState state = heap({segment({hole(30_MiB), live(10_MiB)}).expandable()});

  const Judgement off = judge_full_card(state, failed(24_MiB));
  const Judgement on = judge_full_card(state, failed(24_MiB), expandable_rules());

  EXPECT_EQ(verdict_of(off), "stranded, proven");
  EXPECT_THAT(off.verdict.stranded_by, ElementsAre("expandable"));
  EXPECT_EQ(verdict_of(on), "servable, proven");
}

// Plain segments serve under the option as well.
TEST(Stranded, NotByAPlainSegmentWhileTheOptionIsOn) {
  const HeapState state = heap({segment({hole(30_MiB), live(10_MiB)})});

  EXPECT_EQ(verdict_of(judge_full_card(state, failed(24_MiB), expandable_rules())),
            "servable, proven");
}

TEST(Stranded, ByStreamAndPoolOfOneHole) {
  const HeapState state =
      heap({segment({hole(30_MiB), live(2_MiB)}).in_private_pool().on_stream(7)});

  EXPECT_THAT(judge_full_card(state, failed(24_MiB)).verdict.stranded_by,
              ElementsAre("stream", "pool"));
}

TEST(Stranded, ByStreamPoolAndPendingOfOneHole) {
  const HeapState state =
      heap({segment({hole(14_MiB), pending(14_MiB), live(2_MiB)}).in_private_pool().on_stream(7)});

  EXPECT_THAT(judge_full_card(state, failed(24_MiB)).verdict.stranded_by,
              ElementsAre("stream", "pool", "pending"));
}

TEST(Stranded, ByClassAndStreamOfOneHole) {
  const HeapState state = heap({segment({hole(30_MiB), live(2_MiB)}).on_stream(7)});

  EXPECT_THAT(judge_full_card(state, failed(1_MiB)).verdict.stranded_by,
              ElementsAre("stream", "class"));
}

// On its own stream the hole of 80 would still be refused to S = 24.
TEST(Stranded, ByOversizeOnAnotherStream) {
  const HeapState state = heap({segment({hole(80_MiB), live(2_MiB)}).on_stream(7)});

  EXPECT_THAT(judge_full_card(state, failed(24_MiB), max_split_rules(64_MiB)).verdict.stranded_by,
              ElementsAre("stream", "oversize"));
}

// Two holes, each behind one barrier: both ways are open.
TEST(Stranded, ByEachBarrierThatHidesAHoleAlone) {
  const HeapState state = heap({segment({hole(30_MiB), live(2_MiB)}).on_stream(7),
                                segment({hole(26_MiB), live(2_MiB)}).in_private_pool()});

  EXPECT_THAT(judge_full_card(state, failed(24_MiB)).verdict.stranded_by,
              ElementsAre("stream", "pool"));
}

// The hole behind one barrier is the nearer one, even if the other is larger.
TEST(Stranded, ByTheFewestBarriers) {
  const HeapState state = heap({segment({hole(90_MiB), live(2_MiB)}).on_stream(7).in_private_pool(),
                                segment({hole(30_MiB), live(2_MiB)}).on_stream(8)});

  EXPECT_THAT(judge_full_card(state, failed(24_MiB)).verdict.stranded_by, ElementsAre("stream"));
}

TEST(Stranded, NamesNothingUnderAnotherVerdict) {
  const HeapState state =
      heap({segment({hole(30_MiB)}), segment({hole(30_MiB), live(2_MiB)}).on_stream(7)});

  EXPECT_THAT(judge_full_card(state, failed(24_MiB)).verdict.stranded_by, IsEmpty());
}

// Under expandable segments best fit goes by what a hole could grow to. S = 30: the tail of 35
// could grow without end, so the hole of 50 is taken. Under max_split_size 40 that one is oversize,
// which the tail would not have been.
TEST(ExpandableSearch, PassesOverATailThatCouldGrow) {
  SizeRules rules = expandable_rules();
  rules.max_split_size = 40_MiB;
  const HeapState state = heap({segment({hole(50_MiB), live(15_MiB), hole(35_MiB)}).expandable()});

  const Judgement judged = judge_full_card(state, asked(30_MiB), rules);

  EXPECT_EQ(rung_of(judged, 1).fits, Fits::kNo);
}

// Without a second hole there is nothing to prefer: the tail of 35 serves.
TEST(ExpandableSearch, TakesATailThatIsTheOnlyHole) {
  SizeRules rules = expandable_rules();
  rules.max_split_size = 40_MiB;
  const HeapState state = heap({segment({live(25_MiB), hole(35_MiB)}).expandable()});

  EXPECT_EQ(verdict_of(judge_full_card(state, asked(30_MiB), rules)), "servable, proven");
}

// Holes in the middle cannot grow: best fit is the one of 35, and the oversize one is not tried.
TEST(ExpandableSearch, TakesTheSmallestOfHolesThatCannotGrow) {
  SizeRules rules = expandable_rules();
  rules.max_split_size = 40_MiB;
  const HeapState state =
      heap({segment({hole(50_MiB), live(5_MiB), hole(35_MiB), live(10_MiB)}).expandable()});

  EXPECT_EQ(verdict_of(judge_full_card(state, asked(30_MiB), rules)), "servable, proven");
}

// In front of a gap of 20 the hole of 35 could grow to 55 only: more than 50, but less than 60.
TEST(ExpandableSearch, CountsTheUnmappedGapBehindAHole) {
  SizeRules rules = expandable_rules();
  rules.max_split_size = 40_MiB;
  const auto judge_other = [&rules](std::uint64_t other_bytes) {
    const HeapState state = heap(
        {segment({live(5_MiB), hole(35_MiB)}).expandable(),
         segment({live(5_MiB), hole(other_bytes), live(5_MiB)}).expandable().after_gap(20_MiB)});
    return rung_of(judge_full_card(state, asked(30_MiB), rules), 1).fits;
  };

  EXPECT_EQ(judge_other(50_MiB), Fits::kNo);
  EXPECT_EQ(judge_other(60_MiB), Fits::kYes);
}

// A hole of 30 +- 1 on another stream: 29 fits for certain, 29.5 perhaps, 31 not.
TEST(Stranded, IsUnknownWithinTheBoundsOfAHole) {
  const HeapState state =
      heap({segment({give_or_take(1_MiB, live(2_MiB)), give_or_take(1_MiB, hole(30_MiB))})
                .on_stream(7)});
  const auto rung_for = [&state](std::uint64_t size_bytes) {
    return rung_of(judge_full_card(state, failed(size_bytes)), 5);
  };

  EXPECT_EQ(rung_for(29_MiB).fits, Fits::kYes);
  EXPECT_EQ(rung_for(29_MiB + 512_KiB).fits, Fits::kUnknown);
  EXPECT_THAT(rung_for(29_MiB + 512_KiB).missing,
              ElementsAre(MissingFact{"block_size", 29_MiB + 512_KiB}));
  EXPECT_EQ(rung_for(31_MiB).fits, Fits::kNo);
}

}  // namespace
}  // namespace fragscope::verdict
