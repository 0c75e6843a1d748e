// SPDX-License-Identifier: Apache-2.0
// What lasts from string to string: resets, what is kept, what an error leaves behind, warnings,
// and which environment variable is read. Seen on PyTorch 2.15.0 and 2.6.0, over virtual CUDA.
#include "allocator/policy/conf/allocator_conf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::policy {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr TorchVersion kOld = TorchVersion::kTorch26;
constexpr TorchVersion kNew = TorchVersion::kTorch215;

GetVariable environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(AllocatorConf, HasPyTorchsDefaults) {
  const AllocatorConf conf;

  EXPECT_EQ(conf.rules.large_segment_size, 20 * kMiB);
  EXPECT_EQ(conf.rules.max_split_size, kUnlimited);
  EXPECT_EQ(conf.rules.max_non_split_rounding, 20 * kMiB);
  EXPECT_EQ(conf.per_process_memory_fraction, 1.0);
  EXPECT_EQ(conf.pinned_num_register_threads, 1U);
  EXPECT_FALSE(conf.expandable_segments_reserve);
}

TEST(AllocatorConf, ResetsFourOptionsAtEachString) {
  AllocatorConf conf;
  ASSERT_FALSE(
      apply_conf("large_segment_size_mb:64,max_split_size_mb:128,"
                 "max_non_split_rounding_mb:256,garbage_collection_threshold:0.5,"
                 "roundup_power2_divisions:8",
                 kNew,
                 conf));

  ASSERT_FALSE(apply_conf("", kNew, conf));

  EXPECT_EQ(conf.rules.large_segment_size, 64 * kMiB);  // is kept
  EXPECT_EQ(conf.rules.max_split_size, kUnlimited);
  EXPECT_EQ(conf.rules.max_non_split_rounding, 64 * kMiB);
  EXPECT_EQ(conf.garbage_collection_threshold, 0.0);
  EXPECT_THAT(conf.rules.roundup_divisions, Each(0U));
}

TEST(AllocatorConf, OldParserKeepsNonSplitRounding) {
  AllocatorConf conf;
  ASSERT_FALSE(apply_conf("max_non_split_rounding_mb:256,max_split_size_mb:64", kOld, conf));

  ASSERT_FALSE(apply_conf("", kOld, conf));

  EXPECT_EQ(conf.rules.max_non_split_rounding, 256 * kMiB);
  EXPECT_EQ(conf.rules.max_split_size, kUnlimited);
}

TEST(AllocatorConf, KeepsEverythingElse) {
  AllocatorConf conf;
  ASSERT_FALSE(
      apply_conf("expandable_segments:True,per_process_memory_fraction:0.5,"
                 "release_lock_on_hipmalloc:True,pinned_use_hip_host_register:True,"
                 "pinned_use_background_threads:True,pinned_free_catch_all:True,"
                 "graph_capture_record_stream_reuse:True,throw_on_cudamalloc_oom:True,"
                 "pinned_num_register_threads:8,pinned_reserve_segment_size_mb:9,"
                 "pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:2,"
                 "expandable_segments_reserve:40G,expandable_segments_reserve_by_class:[a:0.5],"
                 "backend:native",
                 kNew,
                 conf));

  ASSERT_FALSE(apply_conf("max_split_size_mb:64", kNew, conf));

  EXPECT_TRUE(conf.rules.expandable_segments);
  EXPECT_EQ(conf.per_process_memory_fraction, 0.5);
  EXPECT_TRUE(conf.release_lock_on_cudamalloc);
  EXPECT_TRUE(conf.pinned_use_cuda_host_register);
  EXPECT_TRUE(conf.pinned_use_background_threads);
  EXPECT_TRUE(conf.pinned_free_catch_all);
  EXPECT_TRUE(conf.graph_capture_record_stream_reuse);
  EXPECT_TRUE(conf.throw_on_cudamalloc_oom);
  EXPECT_EQ(conf.pinned_num_register_threads, 8U);
  EXPECT_EQ(conf.pinned_reserve_segment_size_mb, 9U);
  EXPECT_EQ(conf.pinned_max_round_threshold, kMiB);
  EXPECT_EQ(conf.pinned_max_cached_size, 2 * kMiB);
  EXPECT_EQ(conf.expandable_segments_reserve, (ReserveSpec{false, 40}));
  EXPECT_EQ(conf.expandable_segments_reserve_by_class.size(), 1U);
  EXPECT_EQ(conf.backend, "native");
  EXPECT_EQ(conf.last_text, "max_split_size_mb:64");
}

TEST(AllocatorConf, KeepsWhatWasAppliedBeforeAnError) {
  for (const TorchVersion version : {kOld, kNew}) {
    AllocatorConf conf;
    ASSERT_TRUE(
        apply_conf("max_split_size_mb:64,garbage_collection_threshold:2,"
                   "expandable_segments:True",
                   version,
                   conf));

    EXPECT_EQ(conf.rules.max_split_size, 64 * kMiB);
    EXPECT_FALSE(conf.rules.expandable_segments);
    EXPECT_THAT(conf.last_text, HasSubstr("garbage"));
  }
}

TEST(AllocatorConf, ErrorInAListKeepsTheBucketsBeforeIt) {
  AllocatorConf conf;
  ASSERT_TRUE(apply_conf("roundup_power2_divisions:[1:2,2:4,4:3]", kNew, conf));

  EXPECT_THAT(conf.rules.roundup_divisions,
              ElementsAre(2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

// The segment size is read in a pass of its own, so it is in force although what stands before it
// is refused; CUDA's options come last, so they are not.
TEST(AllocatorConf, PassesOfTheNewParserDecideWhatAnErrorLeaves) {
  AllocatorConf conf;
  ASSERT_TRUE(apply_conf(
      "throw_on_cudamalloc_oom:True,max_split_size_mb:32,large_segment_size_mb:64", kNew, conf));

  EXPECT_EQ(conf.rules.large_segment_size, 64 * kMiB);
  EXPECT_EQ(conf.rules.max_non_split_rounding, 64 * kMiB);
  EXPECT_FALSE(conf.throw_on_cudamalloc_oom);

  ASSERT_TRUE(apply_conf("throw_on_cudamalloc_oom:x,expandable_segments:True", kNew, conf));
  EXPECT_TRUE(conf.rules.expandable_segments);
}

TEST(AllocatorConf, ErrorInTheFirstPassKeepsNonSplitRounding) {
  AllocatorConf conf;
  ASSERT_FALSE(apply_conf("max_non_split_rounding_mb:256", kNew, conf));

  ASSERT_TRUE(apply_conf("large_segment_size_mb:1", kNew, conf));

  EXPECT_EQ(conf.rules.max_non_split_rounding, 256 * kMiB);
}

TEST(AllocatorConf, WarnsOfReservesThatItIgnores) {
  AllocatorConf conf;
  std::vector<std::string> warnings;
  ASSERT_FALSE(apply_conf("expandable_segments_reserve:0.5", kNew, conf, &warnings));
  EXPECT_THAT(warnings, IsEmpty());

  ASSERT_FALSE(apply_conf("expandable_segments_reserve:x", kNew, conf, &warnings));

  EXPECT_THAT(warnings,
              ElementsAre("Ignoring invalid expandable-segment reserve value 'x' in "
                          "PYTORCH_CUDA_ALLOC_CONF (expected a positive, finite fraction like 0.5 "
                          "or an absolute size like 40G); using default."));
  EXPECT_EQ(conf.expandable_segments_reserve, (ReserveSpec{true, 0.5}));
}

// Only if one string gives both: the values of two strings are not compared.
TEST(AllocatorConf, WarnsOfPinnedLimitsThatOneStringGives) {
  AllocatorConf conf;
  std::vector<std::string> warnings;
  ASSERT_FALSE(apply_conf("pinned_max_round_threshold_mb:64", kNew, conf, &warnings));
  ASSERT_FALSE(apply_conf("pinned_max_cached_size_mb:32", kNew, conf, &warnings));
  EXPECT_THAT(warnings, IsEmpty());

  ASSERT_FALSE(apply_conf(
      "pinned_max_cached_size_mb:32,pinned_max_round_threshold_mb:64", kNew, conf, &warnings));

  EXPECT_THAT(warnings,
              ElementsAre(HasSubstr(
                  "pinned_max_round_threshold_mb (64) > pinned_max_cached_size_mb (32).")));
}

// 2.15 counts CUDA's own options alone as native ones, 2.6 all.
TEST(AllocatorConf, WarnsOfOptionsThatTheOtherBackendIgnores) {
  for (const TorchVersion version : {kOld, kNew}) {
    AllocatorConf conf;
    conf.loaded_backend = "cudaMallocAsync";
    std::vector<std::string> warnings;

    ASSERT_FALSE(
        apply_conf("backend:cudaMallocAsync,max_split_size_mb:64", version, conf, &warnings));

    EXPECT_EQ(warnings.size(), version == kOld ? 1U : 0U);
    EXPECT_TRUE(apply_conf("backend:native", version, conf));
  }
}

TEST(ConfVariables, OldPyTorchReadsOneVariable) {
  const GetVariable get_variable =
      environment({{"PYTORCH_ALLOC_CONF", ""}, {"PYTORCH_HIP_ALLOC_CONF", ""}});

  EXPECT_THAT(conf_variables(kOld, get_variable).common, IsEmpty());
  EXPECT_EQ(conf_variables(kOld, environment({{"PYTORCH_CUDA_ALLOC_CONF", ""}})).device,
            "PYTORCH_CUDA_ALLOC_CONF");
}

TEST(ConfVariables, FirstThatIsSetWinsEvenIfEmpty) {
  const ConfVariables cuda = conf_variables(
      kNew, environment({{"PYTORCH_CUDA_ALLOC_CONF", ""}, {"PYTORCH_ALLOC_CONF", "foo"}}));
  EXPECT_EQ(cuda.common, "PYTORCH_CUDA_ALLOC_CONF");
  EXPECT_EQ(cuda.device, "PYTORCH_CUDA_ALLOC_CONF");

  const ConfVariables any = conf_variables(kNew, environment({{"PYTORCH_ALLOC_CONF", "foo"}}));
  EXPECT_EQ(any.common, "PYTORCH_ALLOC_CONF");
  EXPECT_EQ(any.device, "PYTORCH_ALLOC_CONF");
}

TEST(ConfVariables, ThatForHipCountsForCommonOptionsOnly) {
  const ConfVariables variables = conf_variables(
      kNew, environment({{"PYTORCH_HIP_ALLOC_CONF", ""}, {"PYTORCH_ALLOC_CONF", ""}}));

  EXPECT_EQ(variables.common, "PYTORCH_HIP_ALLOC_CONF");
  EXPECT_EQ(variables.device, "PYTORCH_ALLOC_CONF");
}

TEST(AllocatorConf, StartsFromTheEnvironment) {
  const GetVariable get_variable = environment(
      {{"PYTORCH_HIP_ALLOC_CONF", "max_split_size_mb:64,throw_on_cudamalloc_oom:True"},
       {"PYTORCH_ALLOC_CONF", "max_split_size_mb:128,per_process_memory_fraction:0.5"}});
  AllocatorConf conf;

  ASSERT_FALSE(apply_environment(kNew, get_variable, conf));

  EXPECT_EQ(conf.rules.max_split_size, 64 * kMiB);
  EXPECT_FALSE(conf.throw_on_cudamalloc_oom);
  EXPECT_EQ(conf.per_process_memory_fraction, 0.5);
  EXPECT_EQ(conf.last_text, "max_split_size_mb:64,throw_on_cudamalloc_oom:True");
}

TEST(AllocatorConf, RefusesTheEnvironmentByCudasOptionsFirst) {
  AllocatorConf conf;

  const auto error = apply_environment(
      kNew, environment({{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:4,foo:1"}}), conf);

  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "Unrecognized key 'foo' in CUDA allocator config.");
}

}  // namespace
}  // namespace fragscope::policy
