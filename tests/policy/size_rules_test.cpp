// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/size_rules.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace fragscope::policy {
namespace {

constexpr SizeRules kDefaults;

SizeRules with_divisions(std::uint64_t divisions) {
  SizeRules rules;
  rules.roundup_divisions.fill(divisions);
  return rules;
}

SizeRules with_max_split(std::uint64_t max_split_size) {
  SizeRules rules;
  rules.max_split_size = max_split_size;
  return rules;
}

TEST(RoundUp, GivesTheNextMultipleOfTheUnit) {
  EXPECT_EQ(round_up(0, 512), 0U);
  EXPECT_EQ(round_up(1, 512), 512U);
  EXPECT_EQ(round_up(512, 512), 512U);
  EXPECT_EQ(round_up(513, 512), 1024U);
}

// A large_segment_size of 11 MiB is no power of two: 2 * 11 = 22.
TEST(RoundUp, TakesUnitsThatAreNoPowerOfTwo) {
  EXPECT_EQ(round_up(12 * kMiB, 11 * kMiB), 22 * kMiB);
}

// 2^64 - 1 has no multiple of 512 above it; the last one below is 2^64 - 512.
TEST(RoundUp, SaturatesAtTheLastMultiple) {
  EXPECT_EQ(round_up(kUnlimited, 512), kUnlimited - 511);
  EXPECT_EQ(round_up(kUnlimited - 511, 512), kUnlimited - 511);
}

TEST(RoundSize, GivesTinyRequestsTheSmallestBlock) {
  EXPECT_EQ(round_size(0, kDefaults), 512U);
  EXPECT_EQ(round_size(1, kDefaults), 512U);
  EXPECT_EQ(round_size(511, kDefaults), 512U);
}

TEST(RoundSize, GivesMultiplesOf512) {
  EXPECT_EQ(round_size(512, kDefaults), 512U);
  EXPECT_EQ(round_size(513, kDefaults), 1024U);
  EXPECT_EQ(round_size(1000, kDefaults), 1024U);
  EXPECT_EQ(round_size(kMiB, kDefaults), kMiB);
  EXPECT_EQ(round_size(kMiB + 1, kDefaults), kMiB + 512);
  EXPECT_EQ(round_size(1100 * kMiB + 1, kDefaults), 1100 * kMiB + 512);
}

TEST(RoundSize, SaturatesForHugeRequests) {
  EXPECT_EQ(round_size(kTooLarge, kDefaults), kTooLarge);
  EXPECT_EQ(round_size(kUnlimited, kDefaults), kUnlimited - 511);
}

// Divisions of 4 between 1024 and 2048 MiB: steps of 256, so 1100 -> 1280, 1281 -> 1536.
TEST(RoundSize, RoundsToTheStepsOfThePowerOfTwoDivisions) {
  const SizeRules rules = with_divisions(4);

  EXPECT_EQ(round_size(1100 * kMiB, rules), 1280 * kMiB);
  EXPECT_EQ(round_size(1280 * kMiB, rules), 1280 * kMiB);
  EXPECT_EQ(round_size(1280 * kMiB + 1, rules), 1536 * kMiB);
  EXPECT_EQ(round_size(1800 * kMiB, rules), 2048 * kMiB);
}

TEST(RoundSize, LeavesPowersOfTwoUnderDivisions) {
  EXPECT_EQ(round_size(1024 * kMiB, with_divisions(8)), 1024 * kMiB);
  EXPECT_EQ(round_size(4096, with_divisions(4)), 4096U);
}

// The guard n > 512 * d, for d = 4: 2048 and less take plain rounding. 1537 plain: 2048. 2049 is
// past it: 2^11 / 4 = 512, so 2560. 5000: 2^12 / 4 = 1024, so 5120.
TEST(RoundSize, TakesPlainRoundingUpToDivisionsTimes512) {
  const SizeRules rules = with_divisions(4);

  EXPECT_EQ(round_size(1537, rules), 2048U);
  EXPECT_EQ(round_size(2048, rules), 2048U);
  EXPECT_EQ(round_size(2049, rules), 2560U);
  EXPECT_EQ(round_size(5000, rules), 5120U);
}

// d = 16 guards up to 8192: 8191 plain is 8192; 5000 plain is 5120 (2^12 / 16 would be 256).
TEST(RoundSize, NeverStepsFinerThan512) {
  const SizeRules rules = with_divisions(16);

  EXPECT_EQ(round_size(5000, rules), 5120U);
  EXPECT_EQ(round_size(8193, rules), 8704U);
}

TEST(RoundSize, TakesDivisionsOfZeroAndOneAsPlain) {
  EXPECT_EQ(round_size(1100 * kMiB + 1, with_divisions(0)), 1100 * kMiB + 512);
  EXPECT_EQ(round_size(1100 * kMiB + 1, with_divisions(1)), 1100 * kMiB + 512);
}

// Seen on PyTorch 2.15: 512 times the divisions wraps to zero, and the next power of two is left.
TEST(RoundSize, TakesTheNextPowerOfTwoFrom2To55DivisionsOn) {
  const SizeRules rules = with_divisions(std::uint64_t{1} << 55);

  EXPECT_EQ(round_size(600, rules), 1024U);
  EXPECT_EQ(round_size(3 * kMiB + 5, rules), 4 * kMiB);
  EXPECT_EQ(round_size(40 * kMiB + 1, rules), 64 * kMiB);
  EXPECT_EQ(round_size(3 * kMiB + 5, with_divisions(std::uint64_t{1} << 54)), 3 * kMiB + 512);
}

// The reference's list [256:1,512:2,1024:4,>:8], as 2.10 and later read it: indices 0 to 8 are 1,
// 9 is 2, 10 is 4, 11 to 15 are 8. Index i governs [2^i MiB, 2^(i+1) MiB).
SizeRules with_the_reference_list() {
  SizeRules rules;
  rules.roundup_divisions = {1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8};
  return rules;
}

// 300 and 511 lie in index 8 (256 to 512): plain.
TEST(RoundSize, ReadsIndexEightFrom256To512Mebibytes) {
  EXPECT_EQ(round_size(300 * kMiB + 1, with_the_reference_list()), 300 * kMiB + 512);
  EXPECT_EQ(round_size(511 * kMiB, with_the_reference_list()), 511 * kMiB);
}

// 513 to 1023 in index 9: two steps of 256. 1025 in index 10: four of 256. 2049 in index 11: eight
// of 256. 5000 in index 12: eight of 512, so 5120.
TEST(RoundSize, ReadsTheBucketOfEachPowerOfTwo) {
  const SizeRules rules = with_the_reference_list();

  EXPECT_EQ(round_size(513 * kMiB, rules), 768 * kMiB);
  EXPECT_EQ(round_size(700 * kMiB, rules), 768 * kMiB);
  EXPECT_EQ(round_size(1025 * kMiB, rules), 1280 * kMiB);
  EXPECT_EQ(round_size(2049 * kMiB, rules), 2304 * kMiB);
  EXPECT_EQ(round_size(5000 * kMiB, rules), 5120 * kMiB);
}

// Index 0 also governs everything below 1 MiB: 600 KiB, four steps of 128 KiB from 512: 640.
TEST(RoundSize, ReadsIndexZeroBelowOneMebibyte) {
  SizeRules rules;
  rules.roundup_divisions[0] = 4;

  EXPECT_EQ(round_size(600 * kKiB, rules), 640 * kKiB);
  EXPECT_EQ(round_size(2 * kMiB + 1, rules), 2 * kMiB + 512);
}

// Index 15 governs everything from 32 GiB on: 33 GiB in two steps of 16 is 48, 65 of 64 is 96.
TEST(RoundSize, ReadsTheLastIndexFrom32GibibytesOn) {
  SizeRules rules;
  rules.roundup_divisions[15] = 2;

  EXPECT_EQ(round_size(31 * kGiB + 1, rules), 31 * kGiB + 512);
  EXPECT_EQ(round_size(33 * kGiB, rules), 48 * kGiB);
  EXPECT_EQ(round_size(65 * kGiB, rules), 96 * kGiB);
}

TEST(SizeClass, ChangesBehindOneMebibyte) {
  EXPECT_EQ(size_class(512), SizeClass::kSmall);
  EXPECT_EQ(size_class(kMiB), SizeClass::kSmall);
  EXPECT_EQ(size_class(kMiB + 512), SizeClass::kLarge);
}

TEST(DeviceAllocation, IsTwoMebibytesForTheSmallClass) {
  EXPECT_EQ(device_allocation(512, kDefaults), 2 * kMiB);
  EXPECT_EQ(device_allocation(kMiB, kDefaults), 2 * kMiB);
}

TEST(DeviceAllocation, IsTheLargeSegmentBelowTenMebibytes) {
  EXPECT_EQ(device_allocation(kMiB + 512, kDefaults), 20 * kMiB);
  EXPECT_EQ(device_allocation(10 * kMiB - 512, kDefaults), 20 * kMiB);
}

// From 10 MiB on, rounded up to 2 MiB.
TEST(DeviceAllocation, FitsTheRequestFromTenMebibytesOn) {
  EXPECT_EQ(device_allocation(10 * kMiB, kDefaults), 10 * kMiB);
  EXPECT_EQ(device_allocation(10 * kMiB + 512, kDefaults), 12 * kMiB);
  EXPECT_EQ(device_allocation(12 * kMiB, kDefaults), 12 * kMiB);
  EXPECT_EQ(device_allocation(19 * kMiB, kDefaults), 20 * kMiB);
  EXPECT_EQ(device_allocation(4 * kGiB + 512, kDefaults), 4 * kGiB + 2 * kMiB);
}

TEST(DeviceAllocation, FollowsLargeSegmentSizeBelowTenMebibytesOnly) {
  SizeRules rules;
  rules.large_segment_size = 64 * kMiB;

  EXPECT_EQ(device_allocation(kMiB, rules), 2 * kMiB);
  EXPECT_EQ(device_allocation(kMiB + 512, rules), 64 * kMiB);
  EXPECT_EQ(device_allocation(10 * kMiB - 512, rules), 64 * kMiB);
  EXPECT_EQ(device_allocation(10 * kMiB, rules), 10 * kMiB);
}

// The last multiple of 2 MiB below 2^64.
TEST(DeviceAllocation, SaturatesForHugeRequests) {
  EXPECT_EQ(device_allocation(kUnlimited - 511, kDefaults), kUnlimited - 2 * kMiB + 1);
}

TEST(PageSize, IsTwoMebibytesSmallAndTheLargeSegmentLarge) {
  SizeRules rules;
  rules.large_segment_size = 64 * kMiB;

  EXPECT_EQ(page_size(SizeClass::kSmall, rules), 2 * kMiB);
  EXPECT_EQ(page_size(SizeClass::kLarge, kDefaults), 20 * kMiB);
  EXPECT_EQ(page_size(SizeClass::kLarge, rules), 64 * kMiB);
}

TEST(ShouldSplit, LeavesAPieceOf512InTheSmallClass) {
  EXPECT_TRUE(should_split(1024, 512, true, kDefaults));
  EXPECT_FALSE(should_split(512, 512, true, kDefaults));
}

// Exactly 1 MiB behind the request stays with it; 512 bytes more are cut off.
TEST(ShouldSplit, NeedsMoreThanOneMebibyteInTheLargeClass) {
  EXPECT_FALSE(should_split(20 * kMiB, 20 * kMiB, false, kDefaults));
  EXPECT_FALSE(should_split(20 * kMiB, 19 * kMiB, false, kDefaults));
  EXPECT_TRUE(should_split(20 * kMiB, 19 * kMiB - 512, false, kDefaults));
}

TEST(ShouldSplit, CutsFinelyUnderExpandableSegments) {
  EXPECT_TRUE(should_split(20 * kMiB, 20 * kMiB - 512, true, kDefaults));
}

TEST(ShouldSplit, NeverCutsForARequestOfMaxSplitSize) {
  const SizeRules rules = with_max_split(64 * kMiB);

  EXPECT_TRUE(should_split(80 * kMiB, 64 * kMiB - 512, false, rules));
  EXPECT_FALSE(should_split(80 * kMiB, 64 * kMiB, false, rules));
}

// An expandable segment is cut even then: its test looks at the rest alone.
TEST(ShouldSplit, IgnoresMaxSplitSizeWhereItCutsFinely) {
  EXPECT_TRUE(should_split(80 * kMiB, 64 * kMiB, true, with_max_split(64 * kMiB)));
}

TEST(OversizeRules, AdmitEverythingWithoutMaxSplitSize) {
  EXPECT_TRUE(oversize_rules_admit(80 * kGiB, 2 * kMiB, kDefaults));
}

TEST(OversizeRules, RefuseAnOversizeBlockToASmallerRequest) {
  const SizeRules rules = with_max_split(64 * kMiB);

  EXPECT_TRUE(oversize_rules_admit(64 * kMiB - 512, 40 * kMiB, rules));
  EXPECT_FALSE(oversize_rules_admit(64 * kMiB, 40 * kMiB, rules));
  EXPECT_FALSE(oversize_rules_admit(64 * kMiB, 64 * kMiB - 512, rules));
}

// R = 20 MiB by default: a waste of 20 MiB is refused, 512 bytes less is not.
TEST(OversizeRules, RefuseAWasteOfMaxNonSplitRounding) {
  const SizeRules rules = with_max_split(64 * kMiB);

  EXPECT_TRUE(oversize_rules_admit(64 * kMiB, 64 * kMiB, rules));
  EXPECT_TRUE(oversize_rules_admit(84 * kMiB - 512, 64 * kMiB, rules));
  EXPECT_FALSE(oversize_rules_admit(84 * kMiB, 64 * kMiB, rules));
}

TEST(OversizeRules, TakeTheWasteFromTheOption) {
  SizeRules rules = with_max_split(64 * kMiB);
  rules.max_non_split_rounding = 100 * kMiB;

  EXPECT_TRUE(oversize_rules_admit(164 * kMiB - 512, 64 * kMiB, rules));
  EXPECT_FALSE(oversize_rules_admit(164 * kMiB, 64 * kMiB, rules));
}

}  // namespace
}  // namespace fragscope::policy
