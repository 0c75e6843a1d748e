// SPDX-License-Identifier: Apache-2.0
// What holds for every engine: bounds, prefixes, times, what makes a timeline at all.
#include "analyzer/stages/timeline_builder.hpp"

#include "analyzer/stages/failure/memory_words.hpp"
#include "tests/stages/log_timelines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace fragscope::stages::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(TimelineBuilder, MakesNothingOfAnAllocatorMessageAlone) {
  EXPECT_THAT(timelines_of(""), IsEmpty());
  EXPECT_THAT(timelines_of("torch.OutOfMemoryError: CUDA out of memory.\n"), IsEmpty());
  EXPECT_THAT(timelines_of("Traceback (most recent call last):\n"
                           "  File \"a.py\", line 3, in <module>\n"
                           "ValueError: no\n"),
              IsEmpty());
  EXPECT_THAT(timelines_of("INFO:     Application startup complete.\n"), IsEmpty());
}

TEST(TimelineBuilder, AsksOnlyForPhrasesThatAScannerCanBeFastWith) {
  for (const std::string_view phrase : stage_phrases())
    EXPECT_GE(phrase.size(), 8U) << phrase;
}

TEST(TimelineBuilder, SeesThroughColoursAndContainers) {
  const std::string log =
      "vllm-1  | \x1b[0;36m(EngineCore_DP0 pid=7)\x1b[0;0m INFO 01-02 10:00:00 [core.py:1] "
      "Initializing a V1 LLM engine (v0.14.0) with config: model='m'\n"
      "vllm-1  | \x1b[0;36m(EngineCore_DP0 pid=7)\x1b[0;0m INFO 01-02 10:00:10 [r.py:1] Model "
      "loading took 5.0 GiB memory and 8.0 seconds\n";
  const auto timelines = timelines_of(log);
  ASSERT_THAT(timelines, SizeIs(1));
  EXPECT_EQ(summary_of(timelines[0]),
            "vllm: last weight-placement, failing none, recovered none, not ready");
}

TEST(TimelineBuilder, ReadsATracebackThatIsQuotedInOneLine) {
  EXPECT_EQ(summary_of("{\"ts\": 1, \"message\": \"Starting to load model acme/base...\"}\n"
                       "{\"ts\": 2, \"message\": \"Model loading took 5.0 GiB and 8.0 seconds\"}\n"
                       "{\"ts\": 3, \"message\": \"failed: Traceback (most recent call last):\\n  "
                       "File \\\"/x/vllm/v1/worker/gpu_worker.py\\\", line 1, in "
                       "determine_available_memory\\ntorch.OutOfMemoryError: CUDA out of memory. "
                       "Tried to allocate 1.00 GiB.\"}\n"),
            "vllm: last weight-placement, failing runtime-preparation, recovered none, not ready");
}

TEST(TimelineBuilder, DoesNotTakeTritonsLimitsForTheDevices) {
  EXPECT_EQ(summary_of("Starting to load model acme/base...\n"
                       "Model loading took 5.0 GiB and 8.0 seconds\n"
                       "Runtime error during autotuning: OutOfMemoryError: out of resource: "
                       "triton_mm Required: 131072 Hardware limit: 101376\n"),
            "vllm: last weight-placement, failing none, recovered none, not ready");
}

TEST(TimelineBuilder, TakesAnErrorThatProgressFollowsForHandled) {
  const std::string begin = "Starting to load model acme/base...\n";
  const std::string error =
      "Traceback (most recent call last):\n"
      "  File \"/x/vllm/usage/usage_lib.py\", line 1, in report\n"
      "RuntimeError: no network\n";
  EXPECT_EQ(summary_of(begin + error + "Model loading took 5.0 GiB and 8.0 seconds\n"),
            "vllm: last weight-placement, failing none, recovered none, not ready");
  EXPECT_EQ(summary_of(begin + error),
            "vllm: last before-launch, failing weight-placement, recovered none, not ready");
}

TEST(TimelineBuilder, GivesNoTimeWhereTheClockRunsBackwards) {
  // vLLM's stamps have no year; this start passes midnight of 31 December.
  const auto timelines = timelines_of(
      "INFO 12-31 23:59:50 [r.py:1] Starting to load model m...\n"
      "INFO 01-01 00:00:10 [r.py:1] Model loading took 5.0 GiB and 8.0 seconds\n");
  ASSERT_THAT(timelines, SizeIs(1));
  ASSERT_THAT(timelines[0].stages, SizeIs(1));
  EXPECT_EQ(timelines[0].stages[0].seconds, std::nullopt);
}

TEST(TimelineBuilder, ShowsARankThatFailedElsewhere) {
  const std::string rank0 = "(Worker_TP0 pid=1) ERROR 01-01 10:00:00 [m.py:1] ";
  const std::string rank1 = "(Worker_TP1 pid=2) ERROR 01-01 10:00:00 [m.py:1] ";
  const std::string oom = "torch.OutOfMemoryError: CUDA out of memory.\n";
  const auto timelines = timelines_of(
      rank0 + "Starting to load model m...\n" + rank1 + "Starting to load model m...\n" + rank0 +
      "Model loading took 5.0 GiB and 8.0 seconds\n" + rank0 +
      "Available KV cache memory: 1.0 "
      "GiB\n" +
      rank0 + oom + rank1 +
      "  File \"/x/vllm/model_executor/model_loader/utils.py\", line 1, in initialize_model\n" +
      rank1 + oom);
  ASSERT_THAT(timelines, SizeIs(2));
  EXPECT_EQ(summary_of(timelines[0]),
            "vllm: last weight-placement, failing runtime-preparation, recovered none, not ready");
  EXPECT_EQ(summary_of(timelines[1]),
            "vllm: last before-launch, failing weight-placement, recovered none, not ready");
  EXPECT_EQ(timelines[1].process, "Worker_TP1 pid=2");
}

TEST(TimelineBuilder, ReadsTheShellsWordWhereItIsGiven) {
  TimelineBuilder builder;
  std::uint64_t number = 0;
  for (const std::string_view text :
       {"Starting to load model m...", "many processes were Killed by others", "Killed"}) {
    builder.add(logtext::read_line(text, ++number));
  }
  const auto timelines = builder.finish();
  ASSERT_THAT(timelines, SizeIs(1));
  EXPECT_EQ(timelines[0].failing, Stage::kWeightPlacement);
  EXPECT_EQ(timelines[0].stages.back().last_line, 3U);
}

TEST(TimelineBuilder, KeepsTheFirstAndTheLastOfVeryManyStarts) {
  std::string log;
  for (int i = 0; i < 200; ++i) {
    log +=
        "[2025-05-06 08:00:03] server_args=ServerArgs(model_path='m')\n"
        "[2025-05-06 08:00:22 TP0] Load weight begin. avail mem=78.10 GB\n";
  }
  TimelineBuilder builder;
  std::uint64_t number = 0;
  for (std::string_view rest = log; !rest.empty(); rest = rest.substr(rest.find('\n') + 1)) {
    builder.add(logtext::read_line(rest.substr(0, rest.find('\n')), ++number));
  }
  const auto timelines = builder.finish();
  ASSERT_THAT(timelines, SizeIs(64));
  EXPECT_EQ(builder.skipped_starts(), 136U);
  EXPECT_EQ(timelines.front().stages[0].first_line, 1U);
  EXPECT_EQ(timelines.back().stages[0].first_line, 399U);
}

TEST(TimelineBuilder, StandsAnyOrderOfItsOwnWords) {
  // Every phrase in every company, from many writers: nothing may break, and memory is bounded.
  std::mt19937 random(20261129);
  const auto phrases = stage_phrases();
  const auto pick = [&](std::size_t count) { return random() % count; };
  TimelineBuilder builder;
  for (std::uint64_t number = 1; number <= 30000; ++number) {
    std::string text = pick(3) == 0 ? "" : "(Worker pid=" + std::to_string(pick(300)) + ") ";
    const std::size_t count = 1 + pick(4);
    for (std::size_t i = 0; i < count; ++i) {
      text += phrases[pick(phrases.size())];
      constexpr std::string_view kTails[] = {"-1",
                                             " 99999999999999999999999999",
                                             " nan GiB",
                                             "0 GB",
                                             ": 7%|# | 1/2 [00:00<00:01, ",
                                             "\n",
                                             "'x'",
                                             ""};
      text += kTails[pick(std::size(kTails))];
    }
    builder.add(logtext::read_line(text, number));
  }
  EXPECT_LE(builder.finish().size(), 64U * 17U);
}

std::string after_start(const std::string& line) {
  return summary_of(
      "Initializing a V1 LLM engine (v0.9.2) with config: model='m'\n"
      "Starting to load model m...\n"
      "Model loading took 14.9900 GiB and 4.1 seconds\n"
      "Available KV cache memory: 55.10 GiB\n" +
      line + "\n");
}

TEST(TimelineBuilder, TakesNoHintForAFailure) {
  for (const char* line : {"In case of CUDA out of memory, try lowering gpu_memory_utilization.",
                           "Hint: on CUDA out of memory lower max_num_seqs",
                           "catch torch.OutOfMemoryError enabled",
                           "oom_handler=OutOfMemoryError",
                           "when CUDA out of memory happens the engine restarts",
                           "Autotuning: config failed with CUDA out of memory, ignored",
                           "this could lead to CUDA out of memory",
                           "RESOURCE_EXHAUSTED: message larger than max"}) {
    EXPECT_THAT(after_start(line), HasSubstr("failing none")) << line;
  }
}

TEST(TimelineBuilder, TakesEveryErrorForOne) {
  for (const char* line :
       {"the engine could not be built: CUDA out of memory. Tried to allocate 1.95 GiB.",
        "RuntimeError: CUDA error: out of memory",
        "torch.OutOfMemoryError: Allocation on device ",
        "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at x.cpp:1",
        "RuntimeError: !handles_.at(i) INTERNAL ASSERT FAILED at x.cpp:1",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "UR error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        "NCCL WARN Cuda failure 2 'out of memory'"}) {
    EXPECT_THAT(after_start(line), HasSubstr("failing runtime-preparation")) << line;
  }
}

// Scanners must look for all of them.
TEST(MemoryWords, ArePhrasesOfTheTimelinesToo) {
  for (const MemoryWords& words : memory_words()) {
    EXPECT_GE(words.text.size(), 10U) << words.text;
    EXPECT_TRUE(has_stage_phrase(words.text)) << words.text;
  }
}

}  // namespace
}  // namespace fragscope::stages::test
