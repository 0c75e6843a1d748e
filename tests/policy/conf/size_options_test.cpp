// SPDX-License-Identifier: Apache-2.0
// Vectors marked "Run" were seen on PyTorch. Strings that it refuses never reach this reader, but
// an edited file may hold them. The grammar itself is tested beside, in conf_vectors_test.cpp.
#include "allocator/policy/conf/size_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace fragscope::policy {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::uint64_t max_split_of(std::string_view conf) {
  return read_size_options(conf).rules.max_split_size;
}

TEST(SizeOptions, AreTheDefaultsWithoutAString) {
  const SizeOptions options = read_size_options("");

  EXPECT_EQ(options.rules.large_segment_size, 20 * kMiB);
  EXPECT_EQ(options.rules.max_split_size, kUnlimited);
  EXPECT_EQ(options.rules.max_non_split_rounding, 20 * kMiB);
  EXPECT_THAT(options.rules.roundup_divisions, Each(0U));
  EXPECT_FALSE(options.rules.expandable_segments);
  EXPECT_FALSE(options.memory_fraction);
}

// Run: max_split_size_mb:20 is 20971520.
TEST(SizeOptions, TakeMaxSplitSizeInMebibytes) {
  EXPECT_EQ(max_split_of("max_split_size_mb:20"), 20971520U);
}

// Run: a prefix is enough.
TEST(SizeOptions, TakeTheNumberAtTheFront) {
  EXPECT_EQ(max_split_of("max_split_size_mb:128.7"), 128 * kMiB);
}

// Run: clamped to the largest multiple of 1 MiB below 2^64.
TEST(SizeOptions, ClampHugeSizes) {
  EXPECT_EQ(max_split_of("max_split_size_mb:99999999999999"), kUnlimited - kMiB + 1);
}

// Run: -1 wraps to the largest number, which no block reaches.
TEST(SizeOptions, TakeMinusOneAsUnlimited) {
  EXPECT_GE(max_split_of("max_split_size_mb:-1"), kUnlimited - kMiB + 1);
}

// Run.
TEST(SizeOptions, AllowACommaAtTheEnd) {
  EXPECT_EQ(max_split_of("max_split_size_mb:64,"), 64 * kMiB);
}

// Run.
TEST(SizeOptions, DropSpaces) {
  EXPECT_EQ(max_split_of(" max_split_size_mb : 64 , garbage_collection_threshold : 0.5 "),
            64 * kMiB);
  EXPECT_EQ(max_split_of("garbage_collection_threshold:0.5,\n\tmax_split_size_mb:64"), 64 * kMiB);
}

TEST(SizeOptions, LetTheLastOfAKeyWin) {
  EXPECT_EQ(max_split_of("max_split_size_mb:64,max_split_size_mb:128"), 128 * kMiB);
}

// Run: False,...:True is True; keys and values are case-sensitive.
TEST(SizeOptions, TurnExpandableSegmentsOnAndOff) {
  const auto expandable = [](std::string_view conf) {
    return read_size_options(conf).rules.expandable_segments;
  };

  EXPECT_TRUE(expandable("expandable_segments:True"));
  EXPECT_FALSE(expandable("expandable_segments:False"));
  EXPECT_TRUE(expandable("expandable_segments:False,expandable_segments:True"));
  EXPECT_FALSE(expandable("expandable_segments:True,expandable_segments:False"));
}

// Run: large_segment_size_mb:11 is accepted. It is also the default of max_non_split_rounding_mb.
TEST(SizeOptions, TakeTheLargeSegmentAsTheDefaultOfNonSplitRounding) {
  const SizeRules rules = read_size_options("large_segment_size_mb:11").rules;

  EXPECT_EQ(rules.large_segment_size, 11 * kMiB);
  EXPECT_EQ(rules.max_non_split_rounding, 11 * kMiB);
}

// PyTorch reads it in a first pass, wherever it stands.
TEST(SizeOptions, ReadTheLargeSegmentFirst) {
  const SizeRules rules =
      read_size_options("max_non_split_rounding_mb:128,large_segment_size_mb:64").rules;

  EXPECT_EQ(rules.large_segment_size, 64 * kMiB);
  EXPECT_EQ(rules.max_non_split_rounding, 128 * kMiB);
}

TEST(SizeOptions, FillAllBucketsWithAScalar) {
  EXPECT_THAT(read_size_options("roundup_power2_divisions:8").rules.roundup_divisions, Each(8U));
}

TEST(SizeOptions, FillBucketsFromAListAndReadOn) {
  const SizeRules rules =
      read_size_options("roundup_power2_divisions:[256:1,512:2,>:8],max_split_size_mb:64").rules;

  EXPECT_THAT(rules.roundup_divisions, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 8, 8, 8, 8, 8));
  EXPECT_EQ(rules.max_split_size, 64 * kMiB);
}

TEST(SizeOptions, TakeNothingFromAListThatIsNotUnderstood) {
  const SizeRules rules =
      read_size_options("roundup_power2_divisions:[1:2,2:3],max_split_size_mb:64").rules;

  EXPECT_THAT(rules.roundup_divisions, Each(0U));
  EXPECT_EQ(rules.max_split_size, 64 * kMiB);
}

TEST(SizeOptions, TakeTheMemoryFraction) {
  EXPECT_EQ(read_size_options("per_process_memory_fraction:0.5").memory_fraction, 0.5);
  EXPECT_EQ(read_size_options("per_process_memory_fraction:1.0").memory_fraction, 1.0);
  EXPECT_EQ(read_size_options("per_process_memory_fraction:0").memory_fraction, 0.0);
}

TEST(SizeOptions, LeaveOtherKeysAlone) {
  const SizeRules rules =
      read_size_options("backend:native,pinned_num_register_threads:8,max_split_size_mb:32").rules;

  EXPECT_EQ(rules.max_split_size, 32 * kMiB);
  EXPECT_EQ(rules.large_segment_size, 20 * kMiB);
}

// Not what PyTorch accepts, but what an edited file may hold: nothing is guessed from it.
TEST(SizeOptions, KeepDefaultsForWhatIsNotUnderstood) {
  for (const std::string_view conf : {"max_split_size_mb",
                                      "max_split_size_mb:",
                                      "max_split_size_mb:abc",
                                      "max_split_size_mb=128",
                                      "max_split_size_mb:99999999999999999999999",
                                      "per_process_memory_fraction:1.5",
                                      "roundup_power2_divisions:3",
                                      ":",
                                      ",,,"}) {
    const SizeOptions options = read_size_options(conf);

    EXPECT_EQ(options.rules.max_split_size, kUnlimited) << conf;
    EXPECT_FALSE(options.memory_fraction) << conf;
    EXPECT_THAT(options.rules.roundup_divisions, Each(0U)) << conf;
  }
}

// Run: -1 is accepted, so as the last of its key it lifts the earlier 64.
TEST(SizeOptions, LetMinusOneLiftAnEarlierSize) {
  EXPECT_GE(max_split_of("max_split_size_mb:64,max_split_size_mb:-1"), kUnlimited - kMiB + 1);
}

}  // namespace
}  // namespace fragscope::policy
