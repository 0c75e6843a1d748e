// SPDX-License-Identifier: Apache-2.0
// What each generation of PyTorch makes of one string: every vector was seen on PyTorch 2.15.0 or
// 2.6.0, over virtual CUDA. tests/torch/conf compares many more, but needs PyTorch.
#include "allocator/policy/conf/allocator_conf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace fragscope::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = ConfError::Kind;

constexpr TorchVersion kOld = TorchVersion::kTorch26;
constexpr TorchVersion kNew = TorchVersion::kTorch215;
constexpr std::uint64_t kLargest = kUnlimited / kMiB * kMiB;

constexpr std::string_view kOutOfBounds =
    "i < config_.size() INTERNAL ASSERT FAILED, please report a bug to PyTorch. Index out of "
    "bounds in ConfigTokenizer";

AllocatorConf accepted(std::string_view text, TorchVersion version) {
  AllocatorConf conf;
  const auto error = apply_conf(text, version, conf);
  EXPECT_FALSE(error) << text << ": " << error->message;
  return conf;
}

struct Refusal {
  std::string_view text;
  Kind kind;
  std::string_view message;
};

void expect_refusals(TorchVersion version, const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    AllocatorConf conf;
    const auto error = apply_conf(refusal.text, version, conf);
    ASSERT_TRUE(error) << refusal.text;
    EXPECT_EQ(error->kind, refusal.kind) << refusal.text;
    EXPECT_EQ(error->message, refusal.message) << refusal.text;
  }
}

TEST(AllocatorConf, TakesSizesInMebibytes) {
  EXPECT_EQ(accepted("max_split_size_mb:20", kNew).rules.max_split_size, 20971520U);
  EXPECT_EQ(accepted("max_split_size_mb:21", kOld).rules.max_split_size, 22020096U);
  for (const TorchVersion version : {kOld, kNew}) {
    EXPECT_EQ(accepted("max_split_size_mb:128.7", version).rules.max_split_size, 128 * kMiB);
    EXPECT_EQ(accepted("max_split_size_mb:-1", version).rules.max_split_size, kLargest);
    EXPECT_EQ(accepted("max_split_size_mb:64,", version).rules.max_split_size, 64 * kMiB);
  }
  EXPECT_EQ(accepted("max_split_size_mb:99999999999999", kNew).rules.max_split_size, kLargest);
  EXPECT_EQ(accepted("large_segment_size_mb:11", kNew).rules.large_segment_size, 11 * kMiB);
}

TEST(AllocatorConf, DropsSpaces) {
  constexpr std::string_view kText =
      " max_split_size_mb : 64 , garbage_collection_threshold : 0.5 ";

  for (const TorchVersion version : {kOld, kNew}) {
    const AllocatorConf conf = accepted(kText, version);
    EXPECT_EQ(conf.rules.max_split_size, 64 * kMiB);
    EXPECT_EQ(conf.garbage_collection_threshold, 0.5);
  }
}

// 2.6 drops the space character alone, so a line break is part of a key.
TEST(AllocatorConf, DropsLineBreaksInTheNewParserOnly) {
  EXPECT_EQ(accepted("\nmax_split_size_mb:64", kNew).rules.max_split_size, 64 * kMiB);
  expect_refusals(kOld,
                  {{"\nmax_split_size_mb:64",
                    Kind::kRuntimeError,
                    "Unrecognized CachingAllocator option: \nmax_split_size_mb"}});
}

TEST(AllocatorConf, LetsTheLastOfAKeyWin) {
  for (const TorchVersion version : {kOld, kNew}) {
    EXPECT_TRUE(accepted("expandable_segments:False,expandable_segments:True", version)
                    .rules.expandable_segments);
    EXPECT_EQ(accepted("garbage_collection_threshold:0.8x", version).garbage_collection_threshold,
              0.8);
  }
}

TEST(AllocatorConf, NewParserTakesAnyTokenForASeparator) {
  const AllocatorConf conf = accepted("max_split_size_mb,64:expandable_segments,True", kNew);

  EXPECT_EQ(conf.rules.max_split_size, 64 * kMiB);
  EXPECT_TRUE(conf.rules.expandable_segments);
}

TEST(AllocatorConf, ReadsListsOfDivisions) {
  constexpr std::string_view kList = "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]";

  EXPECT_THAT(accepted(kList, kNew).rules.roundup_divisions,
              ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8));
  EXPECT_THAT(accepted(kList, kOld).rules.roundup_divisions,
              ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 8, 8, 8, 8, 8));
  EXPECT_THAT(accepted("roundup_power2_divisions:[>:4]", kNew).rules.roundup_divisions,
              ElementsAre(0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4));
  EXPECT_THAT(accepted("roundup_power2_divisions:[1:2,2:4]", kNew).rules.roundup_divisions,
              ElementsAre(2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(AllocatorConf, HoldsDivisionsBeyondThirtyTwoBits) {
  const auto divisions =
      accepted("roundup_power2_divisions:9223372036854775808", kNew).rules.roundup_divisions;

  EXPECT_EQ(divisions[0], std::uint64_t{1} << 63);
}

TEST(AllocatorConf, ReadsReserves) {
  const AllocatorConf conf = accepted(
      "expandable_segments_reserve:0.5,expandable_segments_reserve_by_class:[a:1G,b:0.25]", kNew);

  EXPECT_EQ(conf.expandable_segments_reserve, (ReserveSpec{true, 0.5}));
  EXPECT_EQ(conf.expandable_segments_reserve_by_class.at("a"), (ReserveSpec{false, 1}));
  EXPECT_EQ(conf.expandable_segments_reserve_by_class.at("b"), (ReserveSpec{true, 0.25}));
}

TEST(AllocatorConf, NewParserRefusesInItsWords) {
  expect_refusals(
      kNew,
      {{"max_split_size_mb:19",
        Kind::kValueError,
        "CachingAllocator option max_split_size_mb too small, must be >= 20"},
       {"large_segment_size_mb:64,max_split_size_mb:32",
        Kind::kValueError,
        "CachingAllocator option max_split_size_mb too small, must be >= 64"},
       {"large_segment_size_mb:10",
        Kind::kValueError,
        "CachingAllocator option large_segment_size_mb must be > 10 MB"},
       {"max_split_size_mb:abc", Kind::kInvalidArgument, "stoull"},
       {"max_split_size_mb:99999999999999999999999", Kind::kOutOfRange, "stoull"},
       {"garbage_collection_threshold:1e-400", Kind::kOutOfRange, "stod"},
       {"garbage_collection_threshold:0",
        Kind::kValueError,
        "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"},
       {"per_process_memory_fraction:2",
        Kind::kValueError,
        "per_process_memory_fraction is invalid, set it in [0.0, 1.0]"},
       {"garbage_collection_threshold:1.0",
        Kind::kValueError,
        "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"},
       {"expandable_segments:1",
        Kind::kValueError,
        "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got '1'"},
       {"expandable_segments:true",
        Kind::kValueError,
        "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'"},
       {"pinned_num_register_threads:3",
        Kind::kValueError,
        "Number of register threads has to be power of 2, got 3"},
       {"pinned_num_register_threads:256",
        Kind::kValueError,
        "Number of register threads should be less than or equal to 128, got 256"},
       {"pinned_reserve_segment_size_mb:0",
        Kind::kValueError,
        "Pinned reserve segment size has to be greater than 0"},
       {"foo:1", Kind::kValueError, "Unrecognized key 'foo' in Accelerator allocator config."},
       {"backend:foo",
        Kind::kValueError,
        "Unknown allocator backend, options are native and cudaMallocAsync"},
       {"backend:cudaMallocAsync",
        Kind::kInternalAssert,
        "tokenizer[i] == get()->name() INTERNAL ASSERT FAILED, please report a bug to PyTorch. "
        "Allocator backend parsed at runtime != allocator backend parsed at load time, "
        "cudaMallocAsync != native"}});
}

TEST(AllocatorConf, NewParserRefusesTextThatEndsTooEarly) {
  for (const std::string_view text :
       {"max_split_size_mb", "max_split_size_mb:", "roundup_power2_divisions:[256:1,512:2"}) {
    expect_refusals(kNew, {{text, Kind::kInternalAssert, kOutOfBounds}});
  }
  expect_refusals(kNew,
                  {{"roundup_power2_divisions:[256:1,",
                    Kind::kInternalAssert,
                    "i < tokenizer.size() INTERNAL ASSERT FAILED, please report a bug to PyTorch. "
                    "Expected closing bracket ']' in ConfigTokenizer but reached end of config"}});
}

// With other separators a key grows together with what follows it, or a value with the next key.
TEST(AllocatorConf, RefusesOtherSeparators) {
  constexpr std::string_view kBySpace = "max_split_size_mb:64 garbage_collection_threshold:0.5";
  constexpr std::string_view kBySemicolon = "max_split_size_mb:64;garbage_collection_threshold:0.5";
  constexpr std::string_view kNewWords = "Unrecognized key '0.5' in Accelerator allocator config.";
  constexpr std::string_view kOldWords = "Error parsing CachingAllocator settings, expected ,";

  expect_refusals(kNew,
                  {{"max_split_size_mb=128",
                    Kind::kValueError,
                    "Unrecognized key 'max_split_size_mb=128' in Accelerator allocator config."},
                   {"max_split_size_mb 64",
                    Kind::kValueError,
                    "Unrecognized key 'max_split_size_mb64' in Accelerator allocator config."},
                   {kBySpace, Kind::kValueError, kNewWords},
                   {kBySemicolon, Kind::kValueError, kNewWords}});
  expect_refusals(kOld,
                  {{"max_split_size_mb 64",
                    Kind::kRuntimeError,
                    "Unrecognized CachingAllocator option: max_split_size_mb64"},
                   {kBySpace, Kind::kRuntimeError, kOldWords},
                   {kBySemicolon, Kind::kRuntimeError, kOldWords}});
}

TEST(AllocatorConf, RefusesDivisionsThatAreNoPowersOfTwo) {
  constexpr std::string_view kNewItem =
      "For roundups, the divisions has to be power of 2 or 0 to disable roundup ";
  constexpr std::string_view kInterval = "For roundups, the intervals have to be power of 2 ";
  constexpr std::string_view kOldScalar = "For roundups, the divisons has to be power of 2 ";

  expect_refusals(kNew,
                  {{"roundup_power2_divisions:0",
                    Kind::kValueError,
                    "For roundups, the divisions has to be power of 2 "},
                   {"roundup_power2_divisions:[4:3]", Kind::kValueError, kNewItem},
                   {"roundup_power2_divisions:[3:2]", Kind::kValueError, kInterval}});
  expect_refusals(kOld,
                  {{"roundup_power2_divisions:3", Kind::kRuntimeError, kOldScalar},
                   {"roundup_power2_divisions:0", Kind::kRuntimeError, kOldScalar},
                   {"roundup_power2_divisions:[3:2]", Kind::kRuntimeError, kInterval}});
}

TEST(AllocatorConf, OldParserRefusesInItsWords) {
  constexpr std::string_view kColon = "Error parsing CachingAllocator settings, expected :";
  expect_refusals(
      kOld,
      {{"max_split_size_mb:20",
        Kind::kRuntimeError,
        "CachingAllocator option max_split_size_mb too small, must be > 20"},
       {"max_split_size_mb:abc", Kind::kInvalidArgument, "stoi"},
       {"max_split_size_mb:99999999999999", Kind::kOutOfRange, "stoi"},
       {"max_split_size_mb", Kind::kRuntimeError, kColon},
       {"max_split_size_mb=128",
        Kind::kRuntimeError,
        "Unrecognized CachingAllocator option: "
        "max_split_size_mb=128"},
       {"max_split_size_mb:", Kind::kRuntimeError, "Error, expecting max_split_size_mb value"},
       {"max_split_size_mb:64:1",
        Kind::kRuntimeError,
        "Error parsing CachingAllocator settings, expected ,"},
       {"garbage_collection_threshold:0",
        Kind::kRuntimeError,
        "garbage_collect_threshold too small, set it 0.0~1.0"},
       {"garbage_collection_threshold:1.0",
        Kind::kRuntimeError,
        "garbage_collect_threshold too big, set it 0.0~1.0"},
       {"expandable_segments:",
        Kind::kRuntimeError,
        "Expected a single True/False argument for expandable_segments"},
       {"pinned_use_hip_host_register:",
        Kind::kRuntimeError,
        "Error, expecting pinned_use_cuda_host_register value"},
       {"pinned_num_register_threads:3",
        Kind::kRuntimeError,
        "Number of register threads has to be power of 2 "},
       {"large_segment_size_mb:64",
        Kind::kRuntimeError,
        "Unrecognized CachingAllocator option: large_segment_size_mb"},
       {"backend:cudaMallocAsync",
        Kind::kInternalAssert,
        "config[i] == get()->name() INTERNAL ASSERT FAILED, please report a bug to PyTorch. "
        "Allocator backend parsed at runtime != allocator backend parsed at load time"}});
}

// PyTorch 2.6 looks behind the last token here, and crashed when it was tried.
TEST(AllocatorConf, OldParserLeavesAnOpenListToChance) {
  AllocatorConf conf;

  const auto error = apply_conf("roundup_power2_divisions:[1:2,2:4", kOld, conf);

  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, Kind::kUndefined);
  EXPECT_THAT(python_exception(error->kind, kOld), IsEmpty());
}

TEST(AllocatorConf, IsRefusedWithThePythonExceptionOfTheVersion) {
  EXPECT_EQ(python_exception(Kind::kValueError, kNew), "ValueError");
  EXPECT_EQ(python_exception(Kind::kInvalidArgument, kNew), "ValueError");
  EXPECT_EQ(python_exception(Kind::kOutOfRange, kNew), "IndexError");
  EXPECT_EQ(python_exception(Kind::kInternalAssert, kNew), "RuntimeError");
  EXPECT_EQ(python_exception(Kind::kOutOfRange, kOld), "RuntimeError");
}

}  // namespace
}  // namespace fragscope::policy
