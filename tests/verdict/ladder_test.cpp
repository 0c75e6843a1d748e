// SPDX-License-Identifier: Apache-2.0
// Each kind of verdict, and where each rung begins and ends. Rungs are written in order, y(es),
// n(o) or ? for unknown; sizes in the comments are MiB unless they say otherwise.
#include "analyzer/verdict/ladder.hpp"

#include "analyzer/recording/outside_memory.hpp"
#include "tests/support/heap_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::verdict {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// 40 live and nothing else.
HeapState full_heap() {
  return heap({segment({live(40_MiB)})});
}

// S = 24, the hole is 30.
TEST(Servable, IsAHoleAtHome) {
  const HeapState state = heap({segment({live(20_MiB), hole(30_MiB)})});

  const Judgement judged = judge_heap(state, failed(24_MiB), facts({.free = 0}));

  EXPECT_EQ(verdict_of(judged), "servable, proven");
  EXPECT_EQ(rungs_of(judged), "yyyyyyyyy");
  EXPECT_EQ(rung_of(judged, 1).bytes, model::exactly(30_MiB));
  EXPECT_EQ(rung_of(judged, 1).need_bytes, 24_MiB);
  EXPECT_THAT(judged.verdict.text, HasSubstr("a retry succeeds"));
}

TEST(Servable, PromisesARetryOnlyForAFailure) {
  const HeapState state = heap({segment({live(20_MiB), hole(30_MiB)})});

  const Judgement judged = judge_heap(state, asked(24_MiB), facts({.free = 0}));

  EXPECT_EQ(verdict_of(judged), "servable, proven");
  EXPECT_THAT(judged.verdict.text, Not(HasSubstr("retry")));
}

TEST(Servable, TakesAHoleOfExactlyTheSize) {
  const HeapState state = heap({segment({live(20_MiB), hole(24_MiB)})});

  EXPECT_EQ(rungs_of(judge_heap(state, failed(24_MiB), facts({.free = 0}))), "yyyyyyyyy");
  EXPECT_EQ(rung_of(judge_heap(state, failed(24_MiB + 512), facts({.free = 0})), 1).fits,
            Fits::kNo);
}

// No fact is needed where a hole serves.
TEST(Servable, IsProvenWithoutAnyFact) {
  const HeapState state = heap({segment({live(20_MiB), hole(30_MiB)})});

  const Judgement judged = judge_heap(state, asked(24_MiB), {});

  EXPECT_EQ(verdict_of(judged), "servable, proven");
  EXPECT_THAT(judged.verdict.missing, IsEmpty());
}

// Asked, S = need = 24: F = 24 does, 512 bytes less do not.
TEST(Servable, IsADriverThatGivesTheNeedWhenAsked) {
  const Judgement enough = judge_heap(full_heap(), asked(24_MiB), facts({.free = 24_MiB}));
  const Judgement less = judge_heap(full_heap(), asked(24_MiB), facts({.free = 24_MiB - 512}));

  EXPECT_EQ(verdict_of(enough), "servable, proven");
  EXPECT_EQ(rungs_of(enough), "nyyyyyyyy");
  EXPECT_EQ(rung_of(less, 2).fits, Fits::kNo);
}

// The pool is not extended by S but by the device allocation: S = 3, need = 20.
TEST(Servable, NeedsTheDeviceAllocationOfTheDriver) {
  const Judgement judged = judge_heap(full_heap(), asked(3_MiB), facts({.free = 19_MiB}));

  EXPECT_EQ(rung_of(judged, 2).need_bytes, 20_MiB);
  EXPECT_EQ(rung_of(judged, 2).fits, Fits::kNo);
}

// S = 50 behind a tail of 12: 40 from the driver are enough.
TEST(Servable, NeedsOnlyPagesThatLackWhenExpandable) {
  const HeapState state = heap({segment({live(8_MiB), hole(12_MiB)}).expandable()});

  const Judgement judged =
      judge_heap(state, asked(50_MiB), facts({.free = 40_MiB}), expandable_rules());

  EXPECT_EQ(verdict_of(judged), "servable, proven");
  EXPECT_EQ(rungs_of(judged), "nyyyyyyyy");
}

// need = 24, F = 24 + 32: the driver had more than its reserve to spare.
TEST(NotExplained, StartsAt32MebibytesBeyondTheNeed) {
  const Judgement judged = judge_heap(full_heap(), failed(24_MiB), facts({.free = 56_MiB}));

  EXPECT_EQ(verdict_of(judged), "not-explained, proven");
  EXPECT_EQ(rungs_of(judged), "nyyyyyyyy");
}

// One byte less, and the driver may have refused its last megabytes: go on, and say so.
TEST(NotExplained, EndsBelow32MebibytesBeyondTheNeed) {
  const Judgement judged = judge_heap(full_heap(), failed(24_MiB), facts({.free = 56_MiB - 1}));

  EXPECT_EQ(rung_of(judged, 2).fits, Fits::kNo);
  EXPECT_THAT(rung_of(judged, 2).note, HasSubstr("32 MiB"));
  EXPECT_THAT(judged.verdict.text, HasSubstr("32 MiB"));
  EXPECT_NE(judged.verdict.kind, VerdictKind::kNotExplained);
  EXPECT_NE(judged.verdict.kind, VerdictKind::kServable);
}

// F = need - 1 is plainly too little: nothing to say about the driver.
TEST(NotExplained, SaysNothingOfTheDriverBelowTheNeed) {
  const Judgement judged = judge_heap(full_heap(), failed(24_MiB), facts({.free = 24_MiB - 1}));

  EXPECT_EQ(rung_of(judged, 2).fits, Fits::kNo);
  EXPECT_EQ(rung_of(judged, 2).note, "");
}

// need = 24, F = 34: between 2 and 24 of it could be had. With 64 releasable that is enough.
TEST(NotExplained, GoesOnToALaterRungInTheGreyZone) {
  const HeapState state = heap({segment({live(40_MiB)}), segment({hole(64_MiB)}).on_stream(7)});

  const Judgement judged = judge_heap(state, failed(24_MiB), facts({.free = 34_MiB}));

  EXPECT_EQ(verdict_of(judged), "releasable, proven");
  EXPECT_EQ(rungs_of(judged), "nnyyyyyyy");
}

// S = need = 40, F = 20; the wholly free 30 is too small by itself, 20 + 30 >= 40.
TEST(Releasable, AddsWhollyFreeSegmentsToTheDevicesFree) {
  const HeapState state = heap({segment({live(40_MiB)}), segment({hole(30_MiB)})});

  const Judgement judged = judge_heap(state, failed(40_MiB), facts({.free = 20_MiB}));

  EXPECT_EQ(verdict_of(judged), "releasable, proven");
  EXPECT_EQ(rungs_of(judged), "nnyyyyyyy");
  EXPECT_EQ(rung_of(judged, 3).bytes, model::exactly(50_MiB));
  EXPECT_EQ(rung_of(judged, 3).need_bytes, 40_MiB);
  EXPECT_THAT(judged.verdict.text, HasSubstr("not fragmentation"));
}

TEST(Releasable, SaysSoToAQuestion) {
  const HeapState state = heap({segment({live(40_MiB)}), segment({hole(30_MiB)})});

  const Judgement judged = judge_heap(state, asked(40_MiB), facts({.free = 20_MiB}));

  EXPECT_EQ(verdict_of(judged), "releasable, proven");
  EXPECT_THAT(judged.verdict.text, HasSubstr("would be served after an automatic release"));
}

// 20 + 20 of which 12 are pending = 40.
TEST(Releasable, WaitsForPendingFrees) {
  const HeapState state =
      heap({segment({live(40_MiB)}), segment({hole(8_MiB), pending(12_MiB)}).on_stream(7)});

  EXPECT_EQ(verdict_of(judge_heap(state, failed(40_MiB), facts({.free = 20_MiB}))),
            "releasable, proven");
}

// The same 20, but 2 of them live: they stay.
TEST(Releasable, LeavesPartlyUsedSegments) {
  const HeapState state =
      heap({segment({live(40_MiB)}), segment({hole(18_MiB), live(2_MiB)}).on_stream(7)});

  const Judgement judged = judge_heap(state, failed(40_MiB), facts({.free = 20_MiB}));

  EXPECT_EQ(rung_of(judged, 3).bytes, model::exactly(20_MiB));
  EXPECT_EQ(rung_of(judged, 3).fits, Fits::kNo);
}

// A tail of 32 behind 8 live, S = 50. Now 18 are lacking, one page; F = 10 is too little. Releasing
// the page from 20 to 40 gives 10 + 20 = 30, but then 38 are lacking, two pages: still no.
TEST(Releasable, GivesNothingByReleasingThePagesItNeeds) {
  const HeapState state = heap({segment({live(8_MiB), hole(32_MiB)}).expandable()});

  const Judgement judged =
      judge_heap(state, failed(50_MiB), facts({.free = 10_MiB}), expandable_rules());

  EXPECT_EQ(rung_of(judged, 2).need_bytes, 20_MiB);
  EXPECT_EQ(rung_of(judged, 3).need_bytes, 40_MiB);
  EXPECT_EQ(rung_of(judged, 3).bytes, model::exactly(30_MiB));
  EXPECT_EQ(rung_of(judged, 3).fits, Fits::kNo);
}

// Reserved 40 + need 24 = 64 > L = 60, while F = 100: short by 4.
TEST(Limit, RefusesWhatTheDriverCouldGive) {
  const Judgement judged =
      judge_heap(full_heap(), failed(24_MiB), facts({.free = 100_MiB, .limit = 60_MiB}));

  EXPECT_EQ(verdict_of(judged), "limit, proven");
  EXPECT_EQ(rungs_of(judged), "nnnyyyyyy");
  EXPECT_EQ(judged.verdict.short_by_bytes, 4_MiB);
  EXPECT_FALSE(judged.verdict.also.limit);
  EXPECT_THAT(rung_of(judged, 2).note, HasSubstr("limit"));
}

// L is anything from 50 to 60, as a rounded figure in a log leaves it: 40 + 24 is at least 4 more.
TEST(Limit, IsExceededByAtLeastWhatABoundLeaves) {
  DeviceFacts known = facts({.free = 100_MiB});
  known.limit = {{50_MiB, 60_MiB}, "log"};

  const Judgement judged = judge_heap(full_heap(), failed(24_MiB), known);
  const Judgement exact =
      judge_heap(full_heap(), failed(24_MiB), facts({.free = 100_MiB, .limit = 60_MiB}));

  EXPECT_EQ(verdict_of(judged), "limit, proven");
  EXPECT_EQ(judged.verdict.short_by_bytes, 4_MiB);
  EXPECT_TRUE(judged.verdict.short_by_is_least);
  EXPECT_THAT(judged.verdict.text, HasSubstr("at least 4.00 MiB over"));
  EXPECT_FALSE(exact.verdict.short_by_is_least);
}

TEST(Limit, RefusesAQuestionAlike) {
  const Judgement judged =
      judge_heap(full_heap(), asked(24_MiB), facts({.free = 24_MiB, .limit = 60_MiB}));

  EXPECT_EQ(verdict_of(judged), "limit, proven");
  EXPECT_EQ(judged.verdict.short_by_bytes, 4_MiB);
}

// 40 + 24 = 64 = L is allowed; a byte less of limit is not.
TEST(Limit, AllowsWhatReachesItExactly) {
  const Judgement at =
      judge_heap(full_heap(), asked(24_MiB), facts({.free = 24_MiB, .limit = 64_MiB}));
  const Judgement below =
      judge_heap(full_heap(), asked(24_MiB), facts({.free = 24_MiB, .limit = 64_MiB - 1}));

  EXPECT_EQ(verdict_of(at), "servable, proven");
  EXPECT_EQ(verdict_of(below), "limit, proven");
  EXPECT_EQ(below.verdict.short_by_bytes, 1U);
}

// Reserved 60, of it 20 releasable; L = 70. 60 + 24 > 70, but 40 + 24 = 64 <= 70.
TEST(Limit, IsHeldAgainstWhatIsLeftAfterARelease) {
  const HeapState state = heap({segment({live(40_MiB)}), segment({hole(20_MiB)})});

  const Judgement judged =
      judge_heap(state, asked(24_MiB), facts({.free = 24_MiB, .limit = 70_MiB}));

  EXPECT_EQ(verdict_of(judged), "releasable, proven");
  EXPECT_EQ(rungs_of(judged), "nnyyyyyyy");
  EXPECT_TRUE(judged.verdict.also.limit);
}

// Reserved 20, S = 50 behind a tail of 12 maps 40: 20 + 40 = 60 would be under L = 65. But the
// allocator holds 20 + 50 = 70 against it: short by 5.
TEST(Limit, IsHeldAgainstTheDeviceAllocationEvenIfExpandable) {
  const HeapState state = heap({segment({live(8_MiB), hole(12_MiB)}).expandable()});

  const Judgement judged = judge_heap(
      state, asked(50_MiB), facts({.free = 100_MiB, .limit = 65_MiB}), expandable_rules());

  EXPECT_EQ(verdict_of(judged), "limit, proven");
  EXPECT_EQ(judged.verdict.short_by_bytes, 5_MiB);
}

// S = 14, F = 0: two holes of 10 at home make 20.
TEST(Fragmented, AddsTheHolesAtHome) {
  const HeapState state = heap({segment({hole(10_MiB), live(2_MiB), hole(10_MiB), live(2_MiB)})});

  const Judgement judged = judge_heap(state, failed(14_MiB), facts({.free = 0}));

  EXPECT_EQ(verdict_of(judged), "fragmented, proven");
  EXPECT_EQ(rungs_of(judged), "nnnnnyyyy");
  EXPECT_EQ(rung_of(judged, 6).bytes, model::exactly(20_MiB));
  EXPECT_EQ(judged.verdict.short_by_bytes, std::nullopt);
  EXPECT_THAT(judged.verdict.text, HasSubstr("The free memory at home would do"));
}

// S = 24, home has 20 and the device 8: neither alone, both together.
TEST(Fragmented, SaysWhereHomeAloneWouldNotDo) {
  const HeapState state = heap({segment({hole(10_MiB), live(2_MiB), hole(10_MiB), live(2_MiB)})});

  const Judgement judged = judge_heap(state, failed(24_MiB), facts({.free = 8_MiB}));

  EXPECT_EQ(verdict_of(judged), "fragmented, proven");
  EXPECT_THAT(judged.verdict.text, HasSubstr("at home, together with device free, would do"));
}

// 3 of the device + 8 releasable on stream 7 + 5 at home = 16 >= 16; without any of them less.
TEST(Fragmented, AddsDeviceFreeReleasableAndHome) {
  const HeapState state =
      heap({segment({hole(5_MiB), live(5_MiB)}), segment({hole(8_MiB)}).on_stream(7)});

  const Judgement judged = judge_heap(state, asked(16_MiB), facts({.free = 3_MiB}));

  EXPECT_EQ(verdict_of(judged), "fragmented, proven");
  EXPECT_EQ(rung_of(judged, 3).bytes, model::exactly(11_MiB));
  EXPECT_EQ(rung_of(judged, 6).bytes, model::exactly(16_MiB));
}

// The wholly free 8 at home is releasable and at home, and still only 8: 3 + 8 < 16.
TEST(Fragmented, CountsReleasableSegmentsAtHomeOnce) {
  const HeapState state = heap({segment({live(10_MiB)}), segment({hole(8_MiB)})});

  const Judgement judged = judge_heap(state, asked(16_MiB), facts({.free = 3_MiB}));

  EXPECT_EQ(rung_of(judged, 3).bytes, model::exactly(11_MiB));
  EXPECT_EQ(rung_of(judged, 6).bytes, model::exactly(11_MiB));
  EXPECT_EQ(rung_of(judged, 6).fits, Fits::kNo);
}

// Rung 3 waited for the pending 6 at home: 8 + 6 = 14.
TEST(Fragmented, KeepsPendingFreesWaitedFor) {
  const HeapState state = heap({segment({hole(8_MiB), live(2_MiB), pending(6_MiB)})});

  EXPECT_EQ(verdict_of(judge_heap(state, failed(14_MiB), facts({.free = 0}))),
            "fragmented, proven");
}

// S = 30 behind a tail of 10, F = 15. Now one page of 20 is lacking: 15 < 20. Remapped, 15 + 10 =
// 25 < 30; against the need of 20, which leaves the tail out, it would fit.
TEST(Fragmented, DoesNotCountAnExpandableTailTwice) {
  const HeapState state = heap({segment({live(10_MiB), hole(10_MiB)}).expandable()});

  const Judgement judged =
      judge_heap(state, failed(30_MiB), facts({.free = 15_MiB}), expandable_rules());

  EXPECT_EQ(rung_of(judged, 6).fits, Fits::kNo);
  EXPECT_EQ(rung_of(judged, 7).fits, Fits::kNo);
  EXPECT_EQ(judged.verdict.short_by_bytes, 5_MiB);
}

// S = 21, no tail: now two pages of 20 are lacking, and F = 20. Remapped, the 10 in pieces at home
// and one page are enough: borders of pages are ignored, an upper bound.
TEST(Fragmented, IgnoresBordersOfPages) {
  const HeapState state =
      heap({segment({hole(5_MiB), live(5_MiB), hole(5_MiB), live(5_MiB)}).expandable()});

  const Judgement judged =
      judge_heap(state, asked(21_MiB), facts({.free = 20_MiB}), expandable_rules());

  EXPECT_EQ(verdict_of(judged), "fragmented, proven");
  EXPECT_EQ(rung_of(judged, 2).need_bytes, 40_MiB);
}

// S = 12: 6 at home, 4 free and 2 pending on stream 7. Rung 6 has 6, rung 7 has 12.
TEST(Scattered, AddsEveryPoolClassAndStream) {
  const HeapState state = heap({segment({live(4_MiB), hole(6_MiB)}),
                                segment({hole(4_MiB), live(6_MiB), pending(2_MiB)}).on_stream(7)});

  const Judgement judged = judge_heap(state, failed(12_MiB), facts({.free = 0}));

  EXPECT_EQ(verdict_of(judged), "scattered, proven");
  EXPECT_EQ(rungs_of(judged), "nnnnnnyyy");
  EXPECT_EQ(rung_of(judged, 6).bytes, model::exactly(6_MiB));
  EXPECT_EQ(rung_of(judged, 7).bytes, model::exactly(12_MiB));
}

// Private pools count here even if they are held: 6 + 8 = 14.
TEST(Scattered, CountsHeldPrivatePools) {
  const HeapState state =
      heap({segment({live(4_MiB), hole(6_MiB)}), segment({hole(8_MiB)}).in_private_pool()});

  const Judgement judged = judge_heap(state, failed(14_MiB), facts({.free = 0}));

  EXPECT_EQ(verdict_of(judged), "scattered, proven");
  EXPECT_EQ(rungs_of(judged), "nnnnnnyyy");
}

// GiB: T = 80, F = 2, reserved 70: X = 8. S = 4: 2 < 4, but 2 + 8 - 0.6 >= 4. Short by 2.
TEST(External, IsMemoryOutsideTheAllocator) {
  const HeapState state = heap({segment({live(70_GiB)})});

  const Judgement judged =
      judge_heap(state, failed(4_GiB), facts({.free = 2_GiB, .total = 80_GiB}));

  EXPECT_EQ(verdict_of(judged), "external, proven");
  EXPECT_EQ(rungs_of(judged), "nnnnnnnyy");
  EXPECT_EQ(judged.verdict.short_by_bytes, 2_GiB);
  EXPECT_EQ(rung_of(judged, 8).bytes, model::exactly(10_GiB - model::kAssumedContextBytes));
}

// F = 0, S = need = 0.5 GiB. X = 1.5 GiB counts, and 1.5 - 0.6 >= 0.5. With 2 MiB less it does not.
TEST(External, StartsAtOneAndAHalfGibibytes) {
  const HeapState state = heap({segment({live(70_GiB)})});
  const auto judge_total = [&state](std::uint64_t total_bytes) {
    return judge_heap(state, failed(512_MiB), facts({.free = 0, .total = total_bytes}));
  };

  EXPECT_EQ(verdict_of(judge_total(71_GiB + 512_MiB)), "external, proven");
  EXPECT_EQ(verdict_of(judge_total(71_GiB + 510_MiB)), "capacity, proven");
}

// On a card of 4 GiB a quarter, 1 GiB, is enough: 1 - 0.6 >= 0.25. With 3 + 1/64 reserved it is
// less.
TEST(External, StartsAtAQuarterOfASmallCard) {
  const auto judge_reserved = [](std::uint64_t reserved_bytes) {
    return judge_heap(heap({segment({live(reserved_bytes)})}),
                      failed(256_MiB),
                      facts({.free = 0, .total = 4_GiB}));
  };

  EXPECT_EQ(verdict_of(judge_reserved(3_GiB)), "external, proven");
  EXPECT_EQ(verdict_of(judge_reserved(3_GiB + 16_MiB)), "capacity, proven");
}

// X = 2 GiB, F = 0, S = 1.25 GiB: less 0.6 it is enough, less a measured context of 1 it is not.
TEST(External, TakesTheMeasuredContextOff) {
  const HeapState state = heap({segment({live(70_GiB)})});
  const KnownBytes known{.free = 0, .total = 72_GiB};
  const KnownBytes measured{.free = 0, .total = 72_GiB, .context = 1_GiB};

  EXPECT_EQ(verdict_of(judge_heap(state, failed(1280_MiB), facts(known))), "external, proven");
  EXPECT_EQ(verdict_of(judge_heap(state, failed(1280_MiB), facts(measured))), "capacity, proven");
}

// GiB: T = 24, live 13, F = 1, so X = 10, all of it in this process. Contexts end at 1.5: the rest
// is another allocator's, and 1 + 10 - 0.6 >= 4.
TEST(External, CountsWhatThisProcessHoldsBesideTheAllocator) {
  const HeapState state = heap({segment({live(13_GiB)})});
  const auto judge_process = [&](std::uint64_t context_bytes) {
    return verdict_of(judge_heap(
        state, failed(4_GiB), facts({.free = 1_GiB, .total = 24_GiB, .context = context_bytes})));
  };

  EXPECT_EQ(judge_process(10_GiB), "external, proven");
  EXPECT_EQ(judge_process(1536_MiB), "external, proven");
}

// GiB: T = 80, live 77, F = 1, so X = 2: 1 + 2 - 0.6 < 4. Short by 4 - 1 = 3.
TEST(Capacity, IsWhereNothingFits) {
  const HeapState state = heap({segment({live(77_GiB)})});

  const Judgement judged =
      judge_heap(state, failed(4_GiB), facts({.free = 1_GiB, .total = 80_GiB}));

  EXPECT_EQ(verdict_of(judged), "capacity, proven");
  EXPECT_EQ(rungs_of(judged), "nnnnnnnnn");
  EXPECT_EQ(judged.verdict.short_by_bytes, 3_GiB);
}

// need 40 - (F 10 + free 5 on stream 7 + pending 3) = 22.
TEST(Capacity, IsShortOfTheNeedLessEverythingFreeOrPending) {
  const HeapState state = heap(
      {segment({live(40_MiB), pending(3_MiB)}), segment({hole(5_MiB), live(5_MiB)}).on_stream(7)});

  const Judgement judged =
      judge_heap(state, failed(40_MiB), facts({.free = 10_MiB, .total = 80_GiB}));

  EXPECT_EQ(judged.verdict.kind, VerdictKind::kExternal);
  EXPECT_EQ(judged.verdict.short_by_bytes, 22_MiB);
  const Judgement alone = judge_heap(state, failed(40_MiB), facts({.free = 10_MiB}));
  EXPECT_EQ(verdict_of(alone), "capacity, proven");
  EXPECT_EQ(alone.verdict.short_by_bytes, 22_MiB);
}

// need = 100 GiB on a card of 80: short by 20, whatever is free.
TEST(Impossible, IsMoreThanTheCardHas) {
  const Judgement judged =
      judge_heap(heap({}), asked(100_GiB), facts({.free = 79_GiB, .total = 80_GiB}));

  EXPECT_EQ(verdict_of(judged), "impossible, proven");
  EXPECT_EQ(rungs_of(judged), "nnnnnnnnn");
  EXPECT_EQ(judged.verdict.short_by_bytes, 20_GiB);
}

TEST(Impossible, NeedsNoDeviceFree) {
  const Judgement judged = judge_heap(heap({}), failed(100_GiB), facts({.total = 80_GiB}));

  EXPECT_EQ(verdict_of(judged), "impossible, proven");
  EXPECT_THAT(judged.verdict.missing, IsEmpty());
}

// The whole card is possible, though not beside a context.
TEST(Impossible, StartsBehindTheWholeCard) {
  const Judgement judged =
      judge_heap(heap({}), asked(80_GiB), facts({.free = 79_GiB, .total = 80_GiB}));

  EXPECT_EQ(verdict_of(judged), "capacity, proven");
  EXPECT_EQ(judged.verdict.short_by_bytes, 1_GiB);
}

// Kinds that say "it is there, but": no bytes are missing.
TEST(ShortBy, IsEmptyWhereNothingIsShort) {
  const HeapState releasable = heap({segment({live(40_MiB)}), segment({hole(30_MiB)})});
  const HeapState stranded = heap({segment({hole(40_MiB), live(2_MiB)}).on_stream(7)});

  EXPECT_FALSE(
      judge_heap(releasable, failed(40_MiB), facts({.free = 20_MiB})).verdict.short_by_bytes);
  EXPECT_FALSE(judge_heap(stranded, failed(40_MiB), facts({.free = 0})).verdict.short_by_bytes);
  EXPECT_FALSE(
      judge_heap(full_heap(), failed(24_MiB), facts({.free = 56_MiB})).verdict.short_by_bytes);
}

TEST(Ladder, NumbersItsRungs) {
  const Judgement judged = judge_heap(full_heap(), asked(24_MiB), {});

  for (int number = 1; number <= 9; ++number) {
    EXPECT_EQ(rung_of(judged, number).number, number);
    EXPECT_FALSE(rung_of(judged, number).what.empty());
  }
}

/// A heap with something for every rung: at home 6 free and 4 pending, 9 releasable on stream 7,
/// 12 free on stream 8, 30 free in a private pool.
HeapState mixed_heap() {
  return heap({segment({live(20_MiB), hole(6_MiB), live(2_MiB), pending(4_MiB)}),
               segment({hole(9_MiB)}).on_stream(7),
               segment({hole(12_MiB), live(2_MiB)}).on_stream(8),
               segment({hole(30_MiB), live(2_MiB)}).in_private_pool()});
}

/// Every combination of a few values for F, T, L and S, recorded and asked.
std::vector<std::pair<Question, DeviceFacts>> many_questions() {
  using Bytes = std::optional<std::uint64_t>;
  std::vector<std::pair<Question, DeviceFacts>> all;
  for (const Bytes free : {Bytes{}, Bytes{0}, Bytes{11_MiB}, Bytes{30_MiB}, Bytes{200_MiB}}) {
    for (const Bytes total : {Bytes{}, Bytes{100_MiB}, Bytes{400_MiB}, Bytes{8_GiB}}) {
      for (const Bytes limit : {Bytes{}, Bytes{90_MiB}, Bytes{110_MiB}}) {
        for (const std::uint64_t size : {1_MiB, 5_MiB, 10_MiB, 24_MiB, 60_MiB, 600_MiB}) {
          const DeviceFacts known = facts({.free = free, .total = total, .limit = limit});
          all.emplace_back(failed(size), known);
          all.emplace_back(asked(size), known);
        }
      }
    }
  }
  return all;
}

// Each rung keeps all earlier relaxations: what fits once fits on every later rung.
TEST(Ladder, NeverTakesAYesBack) {
  const HeapState state = mixed_heap();

  for (const auto& [question, known] : many_questions()) {
    const std::string rungs = rungs_of(judge_heap(state, question, known));

    const std::size_t first = std::min(rungs.find('y'), rungs.size());
    EXPECT_EQ(rungs.substr(first), std::string(9 - first, 'y')) << rungs;
  }
}

// The first yes names the verdict; it is proven if every rung before it is no.
TEST(Ladder, NamesTheVerdictByItsFirstYes) {
  static constexpr std::array<std::string_view, 8> kNames = {"servable",
                                                             "servable",
                                                             "releasable",
                                                             "limit",
                                                             "stranded",
                                                             "fragmented",
                                                             "scattered",
                                                             "external"};
  const HeapState state = mixed_heap();

  for (const auto& [question, known] : many_questions()) {
    const Judgement judged = judge_heap(state, question, known);
    const std::string rungs = rungs_of(judged);
    const std::size_t first = rungs.find('y');
    if (first >= kNames.size()) continue;
    const bool explained = first != 1 || !question.recorded;
    const std::string_view kind = explained ? kNames.at(first) : "not-explained";
    const bool proven = rungs.find('?') > first;
    EXPECT_EQ(verdict_of(judged), std::string(kind) + (proven ? ", proven" : ", possible"))
        << rungs;
  }
}

// Only a rung that is unknown misses a fact, and it says which.
TEST(Ladder, NamesAFactOnEveryUnknownRungBeforeTheLast) {
  const HeapState state = mixed_heap();

  for (const auto& [question, known] : many_questions()) {
    const Judgement judged = judge_heap(state, question, known);
    for (int number = 1; number <= 8; ++number) {
      const Rung& rung = rung_of(judged, number);
      EXPECT_EQ(rung.missing.empty(), rung.fits != Fits::kUnknown)
          << "rung " << number << " of " << rungs_of(judged);
    }
  }
}

// The heap of Need.AfterAReleaseOfNothingIsTheSame, F = 20: no page goes back and 40 are needed, so
// an automatic release does not serve it.
TEST(Releasable, IsNotWhereNothingCanBeReleased) {
  const HeapState state =
      heap({segment({live(20_MiB)}).expandable(),
            segment({live(5_MiB), hole(15_MiB)}).expandable().after_gap(40_MiB)});

  const Judgement judged =
      judge_heap(state, asked(30_MiB), facts({.free = 20_MiB}), expandable_rules());

  EXPECT_EQ(rung_of(judged, 3).fits, Fits::kNo);
}

// Reserved 40 + 24 = 64 > L = 60: the allocator fails without asking the driver, so F = 34, which
// is 10 above the need, says nothing about what the driver keeps back.
TEST(Limit, ExplainsAFailureInTheDriversGreyZone) {
  const Judgement judged =
      judge_heap(full_heap(), failed(24_MiB), facts({.free = 34_MiB, .limit = 60_MiB}));

  EXPECT_EQ(judged.verdict.kind, VerdictKind::kLimit);
  EXPECT_EQ(judged.verdict.short_by_bytes, 4_MiB);
}

// S = 3, two holes of 2.5 at home, F = 0. One hole of 5 would serve it, with no new segment of 20:
// the reference (section 7.1, step 4) calls it fragmentation where the free bytes at home reach S.
TEST(Fragmented, NeedsNoNewSegmentWhereHomeHoldsTheRequest) {
  const HeapState state =
      heap({segment({hole(2_MiB + 512_KiB), live(8_MiB), hole(2_MiB + 512_KiB), live(7_MiB)})});

  EXPECT_EQ(verdict_of(judge_heap(state, failed(3_MiB), facts({.free = 0}))), "fragmented, proven");
}

// T = 100, reserved 90: F and X together are 10, whatever each is. 40 do not fit in them.
TEST(External, IsNoWhereTheRestOfTheCardIsTooLittle) {
  const HeapState state = heap({segment({live(90_MiB)})});

  const Judgement judged = judge_heap(state, asked(40_MiB), facts({.total = 100_MiB}));

  EXPECT_EQ(rung_of(judged, 8).fits, Fits::kNo);
  EXPECT_THAT(judged.verdict.missing, IsEmpty());
}

}  // namespace
}  // namespace fragscope::verdict
