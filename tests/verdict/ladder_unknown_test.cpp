// SPDX-License-Identifier: Apache-2.0
// Rungs that a missing fact decides: which fact, from which value on, and what that leaves of the
// verdict. Where a threshold is given, the question is judged again with just that value.
#include "analyzer/recording/outside_memory.hpp"
#include "analyzer/verdict/ladder.hpp"
#include "tests/support/heap_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace fragscope::verdict {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

MissingFact only_missing(const Judgement& judged, int number) {
  const auto& missing = rung_of(judged, number).missing;
  EXPECT_THAT(missing, SizeIs(1)) << "rung " << number;
  return missing.empty() ? MissingFact{} : missing.front();
}

// S = need = 40; 10 releasable on stream 7, 6 at home, 8 more on stream 8.
HeapState partly_free_heap() {
  return heap({segment({live(40_MiB), hole(6_MiB)}),
               segment({hole(10_MiB)}).on_stream(7),
               segment({hole(8_MiB), live(2_MiB)}).on_stream(8)});
}

// From which F on: rung 2 at 40; 3 and 4 at 40 - 10; 6 at 40 - 10 - 6; 7 at 40 - 24.
TEST(UnknownFree, NamesTheValueThatDecidesEachRung) {
  const Judgement judged = judge_heap(partly_free_heap(), asked(40_MiB), {});

  EXPECT_EQ(verdict_of(judged), "unknown, possible");
  EXPECT_EQ(only_missing(judged, 2), (MissingFact{"device_free", 40_MiB}));
  EXPECT_EQ(only_missing(judged, 3), (MissingFact{"device_free", 30_MiB}));
  EXPECT_EQ(only_missing(judged, 4), (MissingFact{"device_free", 30_MiB}));
  EXPECT_EQ(only_missing(judged, 6), (MissingFact{"device_free", 24_MiB}));
  EXPECT_EQ(only_missing(judged, 7), (MissingFact{"device_free", 16_MiB}));
}

// With exactly those values, and a byte less each.
TEST(UnknownFree, IsDecidedByThoseValues) {
  const auto kind_with = [](std::uint64_t free_bytes) {
    return judge_heap(partly_free_heap(), asked(40_MiB), facts({.free = free_bytes})).verdict.kind;
  };

  EXPECT_EQ(kind_with(40_MiB), VerdictKind::kServable);
  EXPECT_EQ(kind_with(40_MiB - 1), VerdictKind::kReleasable);
  EXPECT_EQ(kind_with(30_MiB), VerdictKind::kReleasable);
  EXPECT_EQ(kind_with(30_MiB - 1), VerdictKind::kFragmented);
  EXPECT_EQ(kind_with(24_MiB), VerdictKind::kFragmented);
  EXPECT_EQ(kind_with(24_MiB - 1), VerdictKind::kScattered);
  EXPECT_EQ(kind_with(16_MiB), VerdictKind::kScattered);
  EXPECT_EQ(kind_with(16_MiB - 1), VerdictKind::kCapacity);
}

// The verdict carries the first threshold of each fact: "servable if device free >= 40".
TEST(UnknownFree, CarriesTheFirstThresholdIntoTheVerdict) {
  const Judgement judged = judge_heap(partly_free_heap(), asked(40_MiB), {});

  ASSERT_FALSE(judged.verdict.missing.empty());
  EXPECT_EQ(judged.verdict.missing.front(), (MissingFact{"device_free", 40_MiB}));
  EXPECT_EQ(judged.verdict.short_by_bytes, std::nullopt);
  EXPECT_THAT(judged.verdict.text, HasSubstr("40.00 MiB"));
}

TEST(UnknownFree, ShowsNoBytesWhereNothingBoundsThem) {
  const Judgement judged = judge_heap(partly_free_heap(), asked(40_MiB), {});

  EXPECT_EQ(rung_of(judged, 2).bytes, std::nullopt);
}

// A later rung that fits without F names the verdict, but only as possible.
TEST(UnknownFree, LeavesALaterYesPossible) {
  const HeapState state = heap({segment({hole(40_MiB), live(2_MiB)}).on_stream(7)});

  const Judgement judged = judge_heap(state, asked(40_MiB), {});

  EXPECT_EQ(verdict_of(judged), "stranded, possible");
  EXPECT_EQ(rungs_of(judged), "n???yyyyy");
  EXPECT_THAT(judged.verdict.missing, ElementsAre(MissingFact{"device_free", 40_MiB}));
}

// Reserved 40 + 24 > L = 60 for certain; whether the driver could have given 24 is open.
TEST(UnknownFree, LeavesTheLimitUnknown) {
  const HeapState state = heap({segment({live(40_MiB)})});

  const Judgement judged = judge_heap(state, asked(24_MiB), facts({.limit = 60_MiB}));

  EXPECT_EQ(rung_of(judged, 2).fits, Fits::kNo);
  EXPECT_EQ(rung_of(judged, 3).fits, Fits::kNo);
  EXPECT_EQ(only_missing(judged, 4), (MissingFact{"device_free", 24_MiB}));
  EXPECT_EQ(verdict_of(judged), "unknown, possible");
  EXPECT_TRUE(judged.verdict.also.limit);
}

// T = 100, reserved 90: at most 10 are free. Rungs 2 to 7 are no whatever F is: 40 > 10. Short by
// at least 30.
TEST(UnknownFree, IsBoundedByTheCard) {
  const HeapState state = heap({segment({live(90_MiB)})});

  const Judgement judged = judge_heap(state, asked(40_MiB), facts({.total = 100_MiB}));

  EXPECT_EQ(verdict_of(judged), "capacity, proven");
  EXPECT_EQ(rungs_of(judged).substr(0, 7), "nnnnnnn");
  EXPECT_EQ(rung_of(judged, 2).bytes, (Bounds{0, 10_MiB}));
  EXPECT_EQ(judged.verdict.short_by_bytes, 30_MiB);
}

// F = 10, live 40, S = 40: this allocator cannot have it. Whether others could is open, since T is
// missing; that does not weaken a statement about this allocator.
TEST(UnknownTotal, LeavesCapacityProven) {
  const HeapState state = heap({segment({live(40_MiB)})});

  const Judgement judged = judge_heap(state, failed(40_MiB), facts({.free = 10_MiB}));

  EXPECT_EQ(verdict_of(judged), "capacity, proven");
  EXPECT_EQ(rungs_of(judged).substr(0, 8), "nnnnnnn?");
  EXPECT_EQ(judged.verdict.short_by_bytes, 30_MiB);
}

// GiB: reserved 10, F = 1, S = 4: 3 are lacking. X = T - 11 less 0.6 is 3 from T = 14.6 on; that X
// of 3.6 counts.
TEST(UnknownTotal, NamesTheCardFromWhichOthersDecide) {
  const HeapState state = heap({segment({live(10_GiB)})});

  const Judgement judged = judge_heap(state, failed(4_GiB), facts({.free = 1_GiB}));

  const std::uint64_t total = 14_GiB + model::kAssumedContextBytes;
  EXPECT_EQ(only_missing(judged, 8), (MissingFact{"device_total", total}));
  const auto kind_with = [&state](std::uint64_t total_bytes) {
    return judge_heap(state, failed(4_GiB), facts({.free = 1_GiB, .total = total_bytes}))
        .verdict.kind;
  };
  EXPECT_EQ(kind_with(total), VerdictKind::kExternal);
  EXPECT_EQ(kind_with(total - 1), VerdictKind::kCapacity);
}

// An unknown F makes rungs 2 to 7 unknown as well: capacity cannot be proven.
TEST(UnknownTotal, DoesNotProveCapacityWithoutFree) {
  const HeapState state = heap({segment({live(40_MiB)})});

  EXPECT_EQ(verdict_of(judge_heap(state, failed(40_MiB), {})), "unknown, possible");
}

/// L as a log prints it.
DeviceFacts with_limit(Bounds limit, const KnownBytes& known) {
  DeviceFacts all = facts(known);
  all.limit = {limit, "log"};
  return all;
}

// Reserved 40 + 24 = 64 lies in L = [60, 70]: fits if L >= 64. The driver has 24.
TEST(UnknownLimit, NamesTheLimitThatWouldAllowIt) {
  const HeapState state = heap({segment({live(40_MiB)})});

  const Judgement judged =
      judge_heap(state, asked(24_MiB), with_limit({60_MiB, 70_MiB}, {.free = 24_MiB}));

  EXPECT_EQ(verdict_of(judged), "limit, possible");
  EXPECT_EQ(rungs_of(judged), "n??yyyyyy");
  EXPECT_THAT(judged.verdict.missing, ElementsAre(MissingFact{"limit", 64_MiB}));
  EXPECT_FALSE(judged.verdict.also.limit);
}

// Within the interval only its ends are certain: L = [64, 70] allows 64, L = [58, 63] refuses it.
TEST(UnknownLimit, IsCertainAtTheEndsOfItsInterval) {
  const HeapState state = heap({segment({live(40_MiB)})});
  const auto verdict_with = [&state](Bounds limit) {
    return verdict_of(judge_heap(state, asked(24_MiB), with_limit(limit, {.free = 24_MiB})));
  };

  EXPECT_EQ(verdict_with({64_MiB, 70_MiB}), "servable, proven");
  EXPECT_EQ(verdict_with({58_MiB, 63_MiB}), "limit, proven");
}

// At least 1 over: reserved + need - the upper end.
TEST(UnknownLimit, IsShortByTheSmallestAmount) {
  const HeapState state = heap({segment({live(40_MiB)})});

  const Judgement judged =
      judge_heap(state, asked(24_MiB), with_limit({58_MiB, 63_MiB}, {.free = 24_MiB}));

  EXPECT_EQ(judged.verdict.short_by_bytes, 1_MiB);
}

// A fraction of an unknown card is a limit of at least 30: it may refuse 40 + 24, and by how much
// nobody can say.
TEST(UnknownLimit, IsShortByNothingKnownWithoutAnUpperEnd) {
  const HeapState state = heap({segment({live(40_MiB)})});

  const Judgement judged =
      judge_heap(state, failed(24_MiB), with_limit({30_MiB, kUnlimited}, {.free = 100_MiB}));

  EXPECT_EQ(verdict_of(judged), "limit, possible");
  EXPECT_FALSE(judged.verdict.short_by_bytes);
  EXPECT_THAT(judged.verdict.missing, ElementsAre(MissingFact{"limit", 64_MiB}));
}

// Nothing says that a limit is set: none is.
TEST(UnknownLimit, IsNoLimit) {
  const HeapState state = heap({segment({live(40_MiB)})});

  EXPECT_EQ(verdict_of(judge_heap(state, asked(24_MiB), facts({.free = 24_MiB}))),
            "servable, proven");
}

// Asked, F = 10, S = 40: two free segments of 15 in a private pool would do if nobody held it.
// Rung 5: none is 40. Rung 6: the same question. Rung 7: 10 + 30 in any case.
TEST(UnknownUseCount, DecidesWhetherPrivatePoolsGiveBack) {
  const HeapState state = heap({segment({live(40_MiB)}),
                                segment({hole(15_MiB)}).in_private_pool(),
                                segment({hole(15_MiB)}).in_private_pool()});

  const Judgement judged = judge_heap(state, asked(40_MiB), facts({.free = 10_MiB}));

  EXPECT_EQ(verdict_of(judged), "scattered, possible");
  EXPECT_EQ(rung_of(judged, 3).fits, Fits::kUnknown);
  EXPECT_EQ(rung_of(judged, 6).fits, Fits::kUnknown);
  EXPECT_EQ(rung_of(judged, 3).bytes, (Bounds{10_MiB, 40_MiB}));
  EXPECT_THAT(judged.verdict.missing, ElementsAre(MissingFact{"pool_use_count", 30_MiB}));
}

// The same at a recorded failure: what was not released is held.
TEST(UnknownUseCount, IsNoQuestionAtARecordedFailure) {
  const HeapState state = heap({segment({live(40_MiB)}),
                                segment({hole(15_MiB)}).in_private_pool(),
                                segment({hole(15_MiB)}).in_private_pool()});

  const Judgement judged = judge_heap(state, failed(40_MiB), facts({.free = 10_MiB}));

  EXPECT_EQ(verdict_of(judged), "scattered, proven");
  EXPECT_EQ(rungs_of(judged), "nnnnnnyyy");
}

// Even all of it would not do: 10 + 15 < 40. Nothing is unknown.
TEST(UnknownUseCount, IsNoQuestionWhereItCannotDecide) {
  const HeapState state =
      heap({segment({live(40_MiB)}), segment({hole(15_MiB)}).in_private_pool()});

  const Judgement judged = judge_heap(state, asked(40_MiB), facts({.free = 10_MiB}));

  EXPECT_EQ(verdict_of(judged), "capacity, proven");
  EXPECT_EQ(judged.verdict.short_by_bytes, 15_MiB);
}

/// A hole of 29 to 30 at home, behind a live block of 2 to 3.
HeapState bounded_heap() {
  return heap({segment({give_or_take(1_MiB, live(2_MiB)), give_or_take(1_MiB, hole(30_MiB))})});
}

// S = 29.5: the hole may be large enough. F = 0.
TEST(UnknownBlockSize, LeavesAHoleAtHomeOpen) {
  const std::uint64_t size = 29_MiB + 512_KiB;

  const Judgement judged = judge_heap(bounded_heap(), failed(size), facts({.free = 0}));

  EXPECT_EQ(rung_of(judged, 1).fits, Fits::kUnknown);
  EXPECT_EQ(rung_of(judged, 1).bytes, (Bounds{29_MiB, 30_MiB}));
  EXPECT_EQ(only_missing(judged, 1), (MissingFact{"block_size", size}));
  EXPECT_NE(judged.verdict.certainty, Certainty::kProven);
}

TEST(UnknownBlockSize, IsCertainAtTheEndsOfItsInterval) {
  EXPECT_EQ(verdict_of(judge_heap(bounded_heap(), failed(29_MiB), facts({.free = 0}))),
            "servable, proven");
  EXPECT_EQ(rung_of(judge_heap(bounded_heap(), failed(30_MiB + 512), facts({.free = 0})), 1).fits,
            Fits::kNo);
}

// The driver serves it in any case, so only the rung is open: servable, but not by proof of rung 1.
TEST(UnknownBlockSize, MakesALaterYesPossible) {
  const Judgement judged =
      judge_heap(bounded_heap(), asked(29_MiB + 512_KiB), facts({.free = 30_MiB}));

  EXPECT_EQ(verdict_of(judged), "servable, possible");
  EXPECT_EQ(rungs_of(judged), "?yyyyyyyy");
}

// Another hole is surely large enough; the bounds do not matter.
TEST(UnknownBlockSize, DoesNotMatterBesideACertainHole) {
  const HeapState state =
      heap({segment({give_or_take(1_MiB, live(2_MiB)), give_or_take(1_MiB, hole(30_MiB))}),
            segment({hole(32_MiB), live(2_MiB)})});

  EXPECT_EQ(verdict_of(judge_heap(state, failed(29_MiB + 512_KiB), facts({.free = 0}))),
            "servable, proven");
}

// max_split_size 64, S = 40. The hole is 63 to 64: at 64 it is oversize, below it is not.
TEST(UnknownBlockSize, LeavesTheOversizeRulesOpen) {
  SizeRules rules;
  rules.max_split_size = 64_MiB;
  const HeapState state =
      heap({segment({give_or_take(1_MiB, live(2_MiB)), give_or_take(1_MiB, hole(64_MiB))})});

  const Judgement judged = judge_heap(state, failed(40_MiB), facts({.free = 0}), rules);

  EXPECT_EQ(rung_of(judged, 1).fits, Fits::kUnknown);
}

// Two bounded holes at home, 8 to 9 and 8 to 9, F = 0. S = 16 fits remapped in any case, 18 at the
// upper ends only.
TEST(UnknownBlockSize, LeavesSumsOpen) {
  const HeapState state = heap({segment({give_or_take(1_MiB, live(2_MiB)),
                                         give_or_take(1_MiB, hole(9_MiB)),
                                         give_or_take(1_MiB, live(2_MiB)),
                                         give_or_take(1_MiB, hole(9_MiB)),
                                         live(2_MiB)})});

  const Judgement sure = judge_heap(state, failed(16_MiB), facts({.free = 0}));
  const Judgement open = judge_heap(state, failed(18_MiB), facts({.free = 0}));

  EXPECT_EQ(verdict_of(sure), "fragmented, proven");
  EXPECT_EQ(rung_of(open, 6).fits, Fits::kUnknown);
  EXPECT_EQ(rung_of(open, 6).bytes, (Bounds{16_MiB, 18_MiB}));
}

// A yes on the first rung asks for nothing, whatever is missing.
TEST(Missing, IsEmptyBehindAYes) {
  const HeapState state = heap({segment({live(2_MiB), hole(30_MiB)})});

  const Judgement judged = judge_heap(state, failed(24_MiB), {});

  for (int number = 1; number <= 9; ++number)
    EXPECT_THAT(rung_of(judged, number).missing, IsEmpty());
}

// A recorded failure is not explained from F = need + 32 MiB on; below, rung 2 is no.
TEST(UnknownFree, OfAFailureDecidesFromTheDriversReserveOn) {
  const HeapState state = heap({segment({live(40_MiB)})});

  const Judgement judged = judge_heap(state, failed(24_MiB), {});

  EXPECT_EQ(only_missing(judged, 2), (MissingFact{"device_free", 56_MiB}));
}

// Rung 5 keeps the limit lifted and the cache given back; where that may be enough already, the
// rung is not no, even if there is no hole elsewhere.
TEST(UnknownFree, LeavesRungFiveUnknownWithoutAHoleElsewhere) {
  const HeapState state = heap({segment({live(40_MiB)})});

  EXPECT_EQ(rungs_of(judge_heap(state, asked(24_MiB), {})).substr(0, 8), "n???????");
}

// GiB: reserved 10, F = 0, S = 0.125. X less 0.6 covers that from X = 0.725 on, but X counts only
// from 1.5 (a quarter of T is more): T = 11.5.
TEST(UnknownTotal, CountsOthersOnlyFromOneAndAHalfGibibytes) {
  const HeapState state = heap({segment({live(10_GiB)})});

  const Judgement judged = judge_heap(state, failed(128_MiB), facts({.free = 0}));

  EXPECT_EQ(only_missing(judged, 8), (MissingFact{"device_total", 11_GiB + 512_MiB}));
  EXPECT_EQ(judge_heap(state, failed(128_MiB), facts({.free = 0, .total = 11_GiB + 512_MiB}))
                .verdict.kind,
            VerdictKind::kExternal);
}

// GiB: reserved 10, F = 1, S = 4: external from T = 14.6 on, and a log prints T = 14.5 to 14.7. The
// blocks are known to the byte; it is T that is missing.
TEST(UnknownTotal, OfALogIsWhatIsMissing) {
  const HeapState state = heap({segment({live(10_GiB)})});
  DeviceFacts known = facts({.free = 1_GiB});
  known.total = {{14_GiB + 512_MiB, 14_GiB + 716_MiB}, "log"};

  const Judgement judged = judge_heap(state, failed(4_GiB), known);

  EXPECT_EQ(rung_of(judged, 8).fits, Fits::kUnknown);
  EXPECT_EQ(only_missing(judged, 8).fact, "device_total");
}

// F = 10 < 24 is no, whatever L is. A rung that is no misses nothing, and so does what is proven.
TEST(UnknownLimit, IsNotMissingWhereTheDriverHasTooLittle) {
  const HeapState state = heap({segment({hole(30_MiB), live(10_MiB)}).on_stream(7)});

  const Judgement judged =
      judge_heap(state, asked(24_MiB), with_limit({60_MiB, 70_MiB}, {.free = 10_MiB}));

  EXPECT_EQ(verdict_of(judged), "stranded, proven");
  EXPECT_THAT(rung_of(judged, 2).missing, IsEmpty());
  EXPECT_THAT(judged.verdict.missing, IsEmpty());
}

// Asked inside the private pool, S = 50, F = 10. Its own free segment of 20 is free at home once,
// and not once more as something that could go back: 10 + 20 = 30.
TEST(UnknownUseCount, DoesNotCountTheRequestsOwnPoolTwice) {
  const HeapState state =
      heap({segment({live(40_MiB)}).in_private_pool(), segment({hole(20_MiB)}).in_private_pool()});
  Question question = asked(50_MiB);
  question.pool = kPrivatePool;

  const Judgement judged = judge_heap(state, question, facts({.free = 10_MiB}));

  EXPECT_EQ(rung_of(judged, 6).bytes, model::exactly(30_MiB));
  EXPECT_EQ(verdict_of(judged), "capacity, proven");
  EXPECT_EQ(judged.verdict.short_by_bytes, 20_MiB);
}

// F = 10, a hole of 19 to 20 at home and one of 20 in a private pool, S = 50. Rung 7 counts both in
// any case; it is the size that decides: 49 or 50.
TEST(UnknownBlockSize, DecidesTheSumOfAllPools) {
  const HeapState state =
      heap({segment({give_or_take(1_MiB, live(2_MiB)), give_or_take(1_MiB, hole(20_MiB))}),
            segment({hole(20_MiB)}).in_private_pool()});

  const Judgement judged = judge_heap(state, asked(50_MiB), facts({.free = 10_MiB}));

  EXPECT_EQ(rung_of(judged, 7).bytes, (Bounds{49_MiB, 50_MiB}));
  EXPECT_EQ(only_missing(judged, 7).fact, "block_size");
}

// The holes of UnknownBlockSize.LeavesSumsOpen: with F = 3 and S = 20 they must come to 17.
TEST(UnknownBlockSize, OfASumDecidesFromTheNeedLessDeviceFreeOn) {
  const HeapState state = heap({segment({give_or_take(1_MiB, live(2_MiB)),
                                         give_or_take(1_MiB, hole(9_MiB)),
                                         give_or_take(1_MiB, live(2_MiB)),
                                         give_or_take(1_MiB, hole(9_MiB)),
                                         live(2_MiB)})});

  const Judgement judged = judge_heap(state, failed(20_MiB), facts({.free = 3_MiB}));

  EXPECT_EQ(rung_of(judged, 6).bytes, (Bounds{19_MiB, 21_MiB}));
  EXPECT_EQ(only_missing(judged, 6), (MissingFact{"block_size", 17_MiB}));
}

}  // namespace
}  // namespace fragscope::verdict
