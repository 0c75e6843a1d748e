// SPDX-License-Identifier: Apache-2.0
// The rules of docs/oom_messages.md one by one: each where it just fires, where it just does not,
// and where rounding leaves it open. Sizes are in MiB and worked out by hand.
#include "analyzer/explain/judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace fragscope::explain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Bounds mib(std::uint64_t value) {
  return {value << 20, value << 20};
}
constexpr Bounds mib(std::uint64_t low, std::uint64_t high) {
  return {low << 20, high << 20};
}

/// A card of 24000 MiB: 15000 live, 8000 held and idle, 100 free, 900 outside; 1000 asked for,
/// which tensors from 998 on print.
Message asked_for_1000() {
  Message message;
  message.backend = Backend::kCuda;
  message.shape = Shape::kNew;
  message.format = "PyTorch 2.2 or later";
  message.device = 0;
  message.figures.request = mib(1000);
  message.figures.tensor = mib(998, 1000);
  message.figures.total = mib(24000);
  message.figures.free = mib(100);
  message.figures.allocated = mib(15000);
  message.figures.reserved = mib(23000);
  message.figures.gap = mib(8000);
  return message;
}

/// The same with little held and idle; what is missing lies outside.
Message with_gap(Bounds gap, Bounds reserved = mib(23000)) {
  Message message = asked_for_1000();
  message.figures.gap = gap;
  message.figures.reserved = reserved;
  message.figures.allocated = reserved - gap;
  return message;
}

/// "kind also also (basis)".
std::string judged(const Message& message) {
  const Finding finding = judge_message(message);
  std::string text(to_string(finding.kind));
  for (const Kind kind : finding.also)
    text += " " + std::string(to_string(kind));
  if (finding.basis != Basis::kNone) text += " (" + std::string(to_string(finding.basis)) + ")";
  return text;
}

// --- possible-fragmentation, capacity, undecidable: could what is idle have reached it? ----------

TEST(JudgeReach, GapThatReachesTheRequestAloneIsItsOwnBasis) {
  EXPECT_EQ(judged(with_gap(mib(8000))), "possible-fragmentation (gap)");
  EXPECT_EQ(judged(with_gap(mib(1000))), "possible-fragmentation (gap)");
}

TEST(JudgeReach, GapThatNeedsWhatIsFreeSaysSo) {
  EXPECT_EQ(judged(with_gap(mib(999))), "possible-fragmentation (gap+free)");
  EXPECT_EQ(judged(with_gap(mib(999, 1001))), "possible-fragmentation (gap+free)");
  EXPECT_EQ(judged(with_gap(mib(900))), "possible-fragmentation (gap+free)");
}

// 898 idle and 100 free are 998: the smallest tensor would have fitted, the largest not.
TEST(JudgeReach, BetweenTheSmallestTensorAndTheRequestIsOpen) {
  EXPECT_EQ(judged(with_gap(mib(899))), "undecidable");
  EXPECT_EQ(judged(with_gap(mib(898))), "undecidable");
  EXPECT_EQ(judged(with_gap(mib(897))), "capacity");
}

TEST(JudgeReach, RoundingLeavesItOpenOnBothSides) {
  EXPECT_EQ(judged(with_gap(mib(899, 901))), "undecidable");
  EXPECT_EQ(judged(with_gap(mib(896, 898))), "undecidable");
  EXPECT_EQ(judged(with_gap(mib(895, 897))), "capacity");
  EXPECT_EQ(judged(with_gap(mib(900, 902))), "possible-fragmentation (gap+free)");
}

TEST(JudgeReach, NoByteIdleIsCapacityForTheSmallestRequest) {
  Message message = with_gap(mib(0));
  message.figures.request = mib(2);
  message.figures.tensor = Bounds{1, 1 << 20};
  message.figures.free = mib(0);
  EXPECT_EQ(judged(message), "capacity");

  message.figures.free = Bounds{1, 1};
  EXPECT_EQ(judged(message), "undecidable");
}

TEST(JudgeReach, WithoutTheGapIsOpen) {
  Message message = asked_for_1000();
  message.figures.gap.reset();
  message.figures.reserved.reset();
  EXPECT_EQ(judged(message), "undecidable");
}

// 24000 - 23200 = 800 may have been free at most, so it was less than the request.
TEST(JudgeReach, WithoutAFreeFigureTheRestOfTheCardBoundsIt) {
  Message message = with_gap(mib(1000), mib(23200));
  message.figures.free.reset();
  EXPECT_EQ(judged(message), "possible-fragmentation (gap)");

  message = with_gap(mib(197), mib(23200));
  message.figures.free.reset();
  EXPECT_EQ(judged(message), "capacity");

  message = with_gap(mib(198), mib(23200));
  message.figures.free.reset();
  EXPECT_EQ(judged(message), "undecidable");

  message = with_gap(mib(5000), mib(20000));
  message.figures.free.reset();
  EXPECT_EQ(judged(message), "undecidable") << "4000 may have been free, which is enough";
}

// --- not-explained. ------------------------------------------------------------------------------

TEST(JudgeFree, AsMuchAsTheRequestIsNotExplained) {
  Message message = asked_for_1000();
  message.figures.reserved = mib(22000);
  message.figures.gap = mib(7000);
  message.figures.free = mib(1000);
  EXPECT_EQ(judged(message), "not-explained");

  message.figures.free = mib(999);
  EXPECT_EQ(judged(message), "possible-fragmentation (gap)");
}

// It is fragmentation only if less was free, and unexplained only if not.
TEST(JudgeFree, WithinRoundingOfTheRequestIsOpenWhateverTheGap) {
  Message message = asked_for_1000();
  message.figures.reserved = mib(22000);
  message.figures.gap = mib(7000);
  message.figures.free = mib(999, 1001);
  EXPECT_EQ(judged(message), "undecidable");
}

// --- impossible. ---------------------------------------------------------------------------------

TEST(JudgeCard, MoreThanTheCardIsImpossible) {
  Message message = with_gap(mib(50));
  message.figures.request = mib(24001);
  message.figures.tensor = mib(23999, 24001);
  EXPECT_EQ(judged(message), "impossible capacity");

  message.figures.request = mib(24000);
  EXPECT_EQ(judged(message), "capacity");

  message.figures.request = mib(23999, 24002);
  EXPECT_EQ(judged(message), "capacity") << "within rounding of the card";
}

TEST(JudgeCard, MoreThanAnExbibyteIsImpossibleWithoutFigures) {
  Message message;
  message.shape = Shape::kBeyond;
  EXPECT_EQ(judged(message), "impossible");
}

// --- limit. --------------------------------------------------------------------------------------

TEST(JudgeLimit, FiresWhereHeldAndRequestExceedIt) {
  Message message = asked_for_1000();
  message.figures.limit = mib(23999);
  EXPECT_EQ(judged(message), "limit possible-fragmentation (gap)");

  message.figures.limit = mib(24000);
  EXPECT_EQ(judged(message), "possible-fragmentation (gap)");
}

TEST(JudgeLimit, WithinRoundingIsAddedAsUndecidable) {
  Message message = asked_for_1000();
  message.figures.limit = mib(23999, 24001);
  EXPECT_EQ(judged(message), "possible-fragmentation undecidable (gap)");

  message.figures.limit = mib(23998, 23999);
  EXPECT_EQ(judged(message), "limit possible-fragmentation (gap)");
}

TEST(JudgeLimit, ComesBeforeFreeMemoryThatWouldHaveBeenEnough) {
  Message message = asked_for_1000();
  message.figures.reserved = mib(11000);
  message.figures.allocated = mib(10000);
  message.figures.gap = mib(1000);
  message.figures.free = mib(12000);
  message.figures.limit = mib(11500);
  EXPECT_EQ(judged(message), "limit not-explained");
}

TEST(JudgeLimit, WhatIsAllocatedIsHeldAtLeast) {
  Message message = asked_for_1000();
  message.figures.reserved.reset();
  message.figures.gap.reset();
  message.figures.limit = mib(15999);
  EXPECT_EQ(judged(message), "limit undecidable");

  message.figures.limit = mib(16000);
  EXPECT_EQ(judged(message), "undecidable") << "what is held is not known";
}

TEST(JudgeLimit, RefusalBeforehandNeedsNoFigures) {
  Message message;
  message.shape = Shape::kRejected;
  EXPECT_EQ(judged(message), "limit");
}

// --- external. -----------------------------------------------------------------------------------

/// Total 24000, free 100, gap 100; the outside is 23900 - reserved.
Message with_outside(std::uint64_t outside, std::uint64_t request) {
  Message message = with_gap(mib(100), mib(23900 - outside));
  message.figures.request = mib(request);
  message.figures.tensor = mib(request - 2, request);
  return message;
}

TEST(JudgeExternal, FiresFromOneAndAHalfGibibytesOn) {
  EXPECT_EQ(judged(with_outside(1536, 1000)), "external");
  EXPECT_EQ(judged(with_outside(1535, 1000)), "capacity");
}

// 0.6 GiB = 614.4 MiB are a context's own: 200 idle and 2000 outside serve 1585.6 at most.
TEST(JudgeExternal, NeedsTheOutsideLessAContextToHaveFitted) {
  EXPECT_EQ(judged(with_outside(2000, 1585)), "external");
  EXPECT_EQ(judged(with_outside(2000, 1586)), "capacity");
}

TEST(JudgeExternal, CountsFromAQuarterOfASmallCardOn) {
  Message message = with_gap(mib(100), mib(2900));
  message.figures.total = mib(4000);
  message.figures.request = mib(300);
  message.figures.tensor = mib(298, 300);
  EXPECT_EQ(judged(message), "external") << "1000 outside, and 200 + 385 could have served it";

  message.figures.reserved = mib(2901);
  message.figures.allocated = mib(2801);
  EXPECT_EQ(judged(message), "capacity") << "999 outside";
}

TEST(JudgeExternal, IsNeverBesideCapacityAndNeedsCapacity) {
  Message message = with_outside(5000, 1000);
  message.figures.gap = mib(1000);
  EXPECT_EQ(judged(message), "possible-fragmentation (gap)");
}

TEST(JudgeExternal, StandsBesideALimitThatBinds) {
  Message message = with_outside(5000, 1000);
  message.figures.limit = mib(19000);
  EXPECT_EQ(judged(message), "limit external");
}

// --- oversubscribed and inconsistent. ------------------------------------------------------------

TEST(JudgeConsistency, MoreHeldThanTheCardIsPaging) {
  Message message = with_gap(mib(50), mib(24001));
  EXPECT_EQ(judged(message), "oversubscribed capacity");

  message = with_gap(mib(50), mib(24000));
  message.figures.free = mib(0);
  EXPECT_EQ(judged(message), "capacity");

  message = with_gap(mib(50), mib(23999, 24001));
  message.figures.free = mib(0);
  EXPECT_EQ(judged(message), "capacity") << "within rounding of the card";
}

TEST(JudgeConsistency, MoreLiveThanTheCardIsPagingWithoutAReservedFigure) {
  Message message = asked_for_1000();
  message.shape = Shape::kAsync;
  message.figures.reserved.reset();
  message.figures.gap.reset();
  message.figures.allocated = mib(24001);
  EXPECT_EQ(judged(message), "oversubscribed undecidable");
}

// With V < A there is no gap that could have served anything.
TEST(JudgeConsistency, LessHeldThanLiveVoidsTheGap) {
  Message message = asked_for_1000();
  message.figures.reserved = mib(14999);
  EXPECT_EQ(judged(message), "inconsistent");

  message.figures.free = mib(1000);
  EXPECT_EQ(judged(message), "inconsistent not-explained");

  message = with_gap(mib(0));
  EXPECT_EQ(judged(message), "capacity") << "as much held as live";
}

TEST(JudgeConsistency, MoreFreeThanTheCardContradicts) {
  Message message = asked_for_1000();
  message.figures.free = mib(24001);
  EXPECT_EQ(judged(message), "inconsistent not-explained");
}

TEST(JudgeConsistency, FreeAndHeldBeyondTheCardContradict) {
  Message message = asked_for_1000();
  message.figures.free = mib(999);
  EXPECT_EQ(judged(message), "possible-fragmentation (gap)") << "999 + 23000 are less than 24000";

  message.figures.reserved = mib(23002);
  EXPECT_EQ(judged(message), "inconsistent possible-fragmentation (gap)");

  message.figures.reserved = mib(23001);
  EXPECT_EQ(judged(message), "possible-fragmentation (gap)");

  message.figures.reserved = mib(23000, 23004);
  EXPECT_EQ(judged(message), "possible-fragmentation (gap)") << "within rounding";
}

TEST(JudgeConsistency, ThisProcessUsesAtLeastWhatItsAllocatorHolds) {
  Message message = asked_for_1000();
  message.figures.process = mib(22999);
  EXPECT_EQ(judged(message), "inconsistent possible-fragmentation (gap)");

  message.figures.process = mib(23000);
  EXPECT_EQ(judged(message), "possible-fragmentation (gap)");
}

// --- Messages without a device, or without a failure. --------------------------------------------

TEST(JudgeNumbers, NeedTheRequestAndAFigureOfTheDevice) {
  Message message = asked_for_1000();
  message.figures.request.reset();
  message.figures.tensor.reset();
  EXPECT_EQ(judged(message), "no-numbers");

  message = Message{};
  message.shape = Shape::kRequest;
  message.figures.request = message.figures.tensor = mib(1000);
  EXPECT_EQ(judged(message), "no-numbers");

  EXPECT_EQ(judged(Message{}), "no-numbers");
}

TEST(JudgeNumbers, ChecksAndAttemptsAreNoFailures) {
  Message message = asked_for_1000();
  message.shape = Shape::kCheck;
  EXPECT_EQ(judged(message), "not-an-oom");
  message.shape = Shape::kAttempt;
  EXPECT_EQ(judged(message), "not-an-oom");
}

TEST(JudgeAsync, HasNoGapToJudge) {
  Message message = asked_for_1000();
  message.shape = Shape::kAsync;
  message.backend = Backend::kAsync;
  message.figures.reserved.reset();
  message.figures.gap.reset();
  EXPECT_EQ(judged(message), "undecidable");

  message.figures.free = mib(1000);
  EXPECT_EQ(judged(message), "not-explained");

  message.figures.limit = mib(15999);
  EXPECT_EQ(judged(message), "limit not-explained");
}

/// 8000 allocated and 9000 other against a limit of 18000.
Message mps(Bounds request) {
  Message message;
  message.backend = Backend::kMps;
  message.shape = Shape::kMps;
  message.format = "PyTorch 1.12 or later";
  message.figures.request = message.figures.tensor = request;
  message.figures.allocated = mib(8000);
  message.figures.other_allocations = mib(9000);
  message.figures.limit = mib(18000);
  return message;
}

TEST(JudgeMps, HoldsTheSumAgainstTheMostAllowed) {
  EXPECT_EQ(judged(mps(mib(1001))), "limit");
  EXPECT_EQ(judged(mps(mib(999, 1001))), "undecidable");
  EXPECT_EQ(judged(mps(mib(1000))), "not-explained") << "it would have been allowed";
}

TEST(JudgeMps, WithoutALimitIsOpen) {
  Message message = mps(mib(1001));
  message.figures.limit.reset();
  EXPECT_EQ(judged(message), "undecidable");
}

// --- Certainty and what is said beside it. -------------------------------------------------------

TEST(JudgeCertainty, OnlyArithmeticIsCertain) {
  EXPECT_TRUE(judge_message(with_gap(mib(50))).certain) << "capacity";
  EXPECT_TRUE(judge_message(with_outside(5000, 1000)).certain) << "external";
  EXPECT_TRUE(judge_message(mps(mib(1001))).certain) << "limit";
  EXPECT_TRUE(judge_message(with_gap(mib(50), mib(24001))).certain) << "oversubscribed";

  EXPECT_FALSE(judge_message(asked_for_1000()).certain) << "possible-fragmentation";
  EXPECT_FALSE(judge_message(with_gap(mib(898))).certain) << "undecidable";
  EXPECT_FALSE(judge_message(mps(mib(1000))).certain) << "not-explained";
  EXPECT_FALSE(judge_message(Message{}).certain) << "no-numbers";
}

TEST(JudgeOrder, ListsTheRestInOrderOfPrecedence) {
  Message message = with_gap(mib(50), mib(24001));
  message.figures.request = mib(30000);
  message.figures.tensor = mib(29998, 30000);
  message.figures.limit = mib(20000);
  message.figures.process = mib(1);
  const Finding finding = judge_message(message);

  EXPECT_EQ(finding.kind, Kind::kInconsistent);
  EXPECT_THAT(finding.also,
              ElementsAre(Kind::kOversubscribed, Kind::kImpossible, Kind::kLimit, Kind::kCapacity));
  EXPECT_EQ(finding.basis, Basis::kNone);
}

TEST(JudgeOrder, HasNoOthersWhereOneRuleFires) {
  EXPECT_THAT(judge_message(asked_for_1000()).also, IsEmpty());
}

}  // namespace
}  // namespace fragscope::explain
