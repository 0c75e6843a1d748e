// SPDX-License-Identifier: Apache-2.0
// SGLang, Text Generation Inference and TensorRT-LLM.
#include "tests/stages/log_timelines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fragscope::stages::test {
namespace {

using ::testing::HasSubstr;

std::string loaded_sglang() {
  return "[2025-05-06 08:00:03] server_args=ServerArgs(model_path='acme/base-70b', tp_size=2)\n"
         "[2025-05-06 08:00:20 TP0] Init torch distributed begin.\n"
         "[2025-05-06 08:00:22 TP0] Load weight begin. avail mem=78.10 GB\n"
         "Loading safetensors checkpoint shards: 100% Completed | 9/9 [00:30<00:00,  3.3s/it]\n"
         "[2025-05-06 08:00:55 TP0] Load weight end. elapsed=31.20 s, type=AcmeForCausalLM, "
         "dtype=torch.bfloat16, avail mem=12.00 GB, mem usage=66.10 GB.\n";
}

std::string prepared_sglang() {
  return loaded_sglang() +
         "[2025-05-06 08:00:57 TP0] KV Cache is allocated. #tokens: 91000, K size: 2.10 GB, V "
         "size: "
         "2.10 GB\n"
         "[2025-05-06 08:01:00 TP0] Capture cuda graph begin. This can take up to several minutes. "
         "avail mem=7.00 GB\n"
         "  0%|          | 0/23 [00:00<?, ?it/s]\n"
         "[2025-05-06 08:01:09 TP0] Capture cuda graph end. Time elapsed: 9.10 s. mem usage=0.90 "
         "GB. avail mem=6.10 GB.\n"
         "[2025-05-06 08:01:10 TP0] max_total_num_tokens=91000, chunked_prefill_size=8192, "
         "context_len=32768, available_gpu_mem=6.10 GB\n";
}

constexpr const char* kSglangPrepareFailed =
    "sglang: last weight-placement, failing runtime-preparation, recovered none, not ready";

TEST(SglangTimeline, IsNotReadyBeforeItsOwnRequest) {
  const std::string http =
      "[2025-05-06 08:01:11] INFO:     Application startup complete.\n"
      "[2025-05-06 08:01:11] INFO:     Uvicorn running on http://0.0.0.0:30000\n"
      "[2025-05-06 08:01:12 TP0] Prefill batch. #new-seq: 1, #new-token: 7\n"
      "[2025-05-06 08:01:13] INFO:     127.0.0.1:40000 - \"POST /generate HTTP/1.1\" 200 OK\n";
  const std::string ready = "[2025-05-06 08:01:13] The server is fired up and ready to roll!\n";
  const std::string request =
      "[2025-05-06 08:02:00 TP0] Prefill batch. #new-seq: 3, #new-token: 900\n"
      "[2025-05-06 08:02:04] INFO:     10.0.0.1:40000 - \"POST /generate HTTP/1.1\" 200 OK\n";

  EXPECT_EQ(summary_of(prepared_sglang() + http),
            "sglang: last runtime-preparation, failing none, recovered none, not ready");
  EXPECT_EQ(summary_of(prepared_sglang() + http + ready),
            "sglang: last readiness, failing none, recovered none, ready");
  EXPECT_EQ(summary_of(prepared_sglang() + http + ready + request),
            "sglang: last requests, failing none, recovered none, ready");
  EXPECT_EQ(summary_of(prepared_sglang() + http +
                       "[2025-05-06 08:01:14] Initialization failed. warmup error: Traceback (most "
                       "recent call last):\n"),
            "sglang: last runtime-preparation, failing readiness, recovered none, not ready");
  EXPECT_EQ(summary_of(prepared_sglang() + http +
                       "[2025-05-06 08:01:14 TP0] Scheduler hit an exception: Traceback (most "
                       "recent call last):\n"
                       "  File \"/sgl/sglang/srt/managers/scheduler.py\", line 6, in "
                       "event_loop_overlap\n"
                       "torch.OutOfMemoryError: CUDA out of memory.\n"),
            "sglang: last runtime-preparation, failing readiness, recovered none, not ready");
}

TEST(SglangTimeline, TakesReadinessOfTheServerForEveryRank) {
  const std::string served =
      prepared_sglang() +
      "[2025-05-06 08:01:12] The server is fired up and ready to roll!\n"
      "[2025-05-06 08:03:00 TP0] Prefill batch. #new-seq: 1, #new-token: 7, #cached-token: 0,\n";
  EXPECT_EQ(
      summary_of(served + "[2025-05-06 08:04:00 TP1] Scheduler hit an exception: Traceback (most "
                          "recent call last):\n"
                          "torch.OutOfMemoryError: CUDA out of memory.\n"),
      "sglang: last readiness, failing requests, recovered none, ready");
}

TEST(SglangTimeline, KeepsItsFiguresInBinaryUnits) {
  const auto timelines = timelines_of(prepared_sglang());
  ASSERT_EQ(timelines.size(), 1U);
  EXPECT_THAT(facts_of(timelines[0]), HasSubstr("model weights 66.10 GiB (line 5"));
  EXPECT_THAT(facts_of(timelines[0]), HasSubstr("KV cache 91000 tokens (line 6"));
  EXPECT_THAT(facts_of(timelines[0]), HasSubstr("CUDA graphs 0.90 GiB (line 9"));
  EXPECT_EQ(timelines[0].stages[2].seconds, 31.2);
}

TEST(SglangTimeline, KnowsItsChecks) {
  const std::string scheduler =
      "[2025-05-06 08:00:56 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
      "  File \"/sgl/sglang/srt/managers/scheduler.py\", line 26, in run_scheduler_process\n";
  EXPECT_EQ(summary_of(loaded_sglang() + scheduler +
                       "RuntimeError: Not enough memory. Please try to increase "
                       "--mem-fraction-static.\n"),
            kSglangPrepareFailed);
  EXPECT_EQ(summary_of(loaded_sglang() + scheduler +
                       "RuntimeError: Loaded weights leave no GPU memory for the KV cache under "
                       "--mem-fraction-static=0.5. Raise it above 0.9\n"),
            kSglangPrepareFailed);
}

TEST(SglangTimeline, ReadsACaptureFailureThatQuotesTheAllocator) {
  EXPECT_EQ(summary_of(loaded_sglang() +
                       "[2025-05-06 08:01:02] Received sigquit from a child process. It usually "
                       "means the child failed.\n"
                       "[2025-05-06 08:01:02 TP1] Scheduler hit an exception: Traceback (most "
                       "recent call last):\n"
                       "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 100.00 MiB.\n"
                       "Exception: Capture cuda graph failed: CUDA out of memory. Tried to "
                       "allocate 100.00 MiB.\n"
                       "Possible solutions:\n"),
            kSglangPrepareFailed);
}

TEST(SglangTimeline, KnowsThatAnotherRankIsStillLoading) {
  EXPECT_EQ(summary_of("[2025-05-06 08:00:03] server_args=ServerArgs(model_path='m', tp_size=2)\n"
                       "[2025-05-06 08:00:22 TP0] Load weight begin. avail mem=78.10 GB\n"
                       "Loading safetensors checkpoint shards:  40% Completed | 2/5 [00:02<00:03, "
                       " 1.0s/it]\n"
                       "[2025-05-06 08:00:55 TP0] Scheduler hit an exception: Traceback (most "
                       "recent call last):\n"
                       "ValueError: TP rank 0 could finish the model loading, but there are other "
                       "ranks that didn't finish loading. It is likely due to unexpected failures "
                       "(e.g., OOM) or a slow node.\n"),
            "sglang: last before-launch, failing checkpoint-reading, recovered none, not ready");
}

TEST(SglangTimeline, PlacesWeightsAfterCaptureWhenTheStartOverlaps) {
  const std::string begin =
      "[2026-08-01 08:00:03] server_args=ServerArgs(model_path='m', "
      "startup_weight_load_mode='overlap')\n"
      "[2026-08-01 08:00:10] Load weight begin. avail mem=78.10 GB\n"
      "[2026-08-01 08:00:12] Prepared capture-safe model in 1.2 s\n"
      "[2026-08-01 08:00:20] Capture target decode CUDA graph begin. backend=full\n";
  EXPECT_EQ(summary_of(begin + "[2026-08-01 08:00:21] Scheduler hit an exception: Traceback (most "
                               "recent call last):\n"
                               "torch.OutOfMemoryError: CUDA out of memory.\n"),
            "sglang: last before-launch, failing runtime-preparation, recovered none, not ready");
  EXPECT_EQ(
      summary_of(begin + "[2026-08-01 08:00:31] Load weight end. Committed real weights after "
                         "CUDA graph capture in 4.00 s\n"),
      "sglang: last weight-placement, failing none, recovered none, not ready");
}

std::string warming_tgi() {
  return "2025-01-02T08:00:00.000100Z  INFO text_generation_launcher: Args {\n"
         "2025-01-02T08:00:01.000100Z  INFO download: text_generation_launcher: Successfully "
         "downloaded weights for acme/base-9b\n"
         "2025-01-02T08:00:01.100100Z  INFO shard-manager: text_generation_launcher: Starting "
         "shard "
         "rank=0\n"
         "2025-01-02T08:00:11.100100Z  INFO shard-manager: text_generation_launcher: Waiting for "
         "shard to be ready... rank=0\n"
         "2025-01-02T08:00:19.100100Z  INFO shard-manager: text_generation_launcher: Shard ready "
         "in "
         "18.00100101s rank=0\n"
         "2025-01-02T08:00:19.200100Z  INFO text_generation_router_v3: backends/v3/src/lib.rs:125: "
         "Warming up model\n";
}

TEST(TgiTimeline, ReachesRequests) {
  EXPECT_EQ(summary_of(warming_tgi() +
                       "2025-01-02T08:00:25.000100Z  INFO text_generation_router_v3: "
                       "backends/v3/src/lib.rs:137: Setting max batch total tokens to 40960\n"
                       "2025-01-02T08:00:25.000200Z  INFO text_generation_router_v3: "
                       "backends/v3/src/lib.rs:166: Using backend V3\n"
                       "2025-01-02T08:00:25.100200Z  WARN text_generation_router::server: "
                       "router/src/server.rs:2300: Invalid hostname, defaulting to 0.0.0.0\n"
                       "2025-01-02T08:00:26.000200Z  INFO text_generation_router::server: "
                       "router/src/server.rs:2402: Connected\n"
                       "2025-01-02T08:02:00.000200Z  INFO compat_generate{default_return=true}: "
                       "text_generation_router::server: router/src/server.rs:409: Success\n"),
            "tgi: last requests, failing none, recovered none, ready");
}

TEST(TgiTimeline, SurvivesAGraphWarmUpThatRanOutOfMemory) {
  const std::string survived =
      "2025-01-02T08:00:24.000100Z ERROR text_generation_launcher: Decode cuda graph warmup "
      "failed\n"
      "Traceback (most recent call last):\n"
      "  File \"/srv/text_generation_server/models/flash_causal_lm.py\", line 5, in warmup\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 40.00 MiB.\n";
  EXPECT_EQ(summary_of(warming_tgi() + survived +
                       "2025-01-02T08:00:26.000200Z  INFO text_generation_router::server: "
                       "router/src/server.rs:2402: Connected\n"),
            "tgi: last readiness, failing none, recovered runtime-preparation, ready");
}

TEST(TgiTimeline, ReadsWarmUpFailuresThatHideTheAllocator) {
  const std::string wanted =
      "tgi: last weight-placement, failing runtime-preparation, recovered none, not ready";
  EXPECT_EQ(summary_of(warming_tgi() +
                       "2025-01-02T08:00:22.000100Z ERROR warmup{max_input_length=1024}:warmup: "
                       "text_generation_router_v3::client: Server error: CANCELLED\n"
                       "Error: Backend(Warmup(Generation(\"CANCELLED\")))\n"),
            wanted);
  EXPECT_EQ(summary_of(warming_tgi() + "thread 'main' panicked: Unable to warmup model: "
                                       "Generation(\"CUDA out of memory. Tried\")\n"),
            wanted);
}

TEST(TgiTimeline, CountsReadingAsPlacing) {
  const std::string begin = warming_tgi().substr(0, warming_tgi().find("2025-01-02T08:00:19.1"));
  EXPECT_EQ(summary_of(begin +
                       "2025-01-02T08:00:17.000100Z ERROR text_generation_launcher: Error when "
                       "initializing model\n"
                       "Traceback (most recent call last):\n"
                       "  File \"/srv/text_generation_server/utils/weights.py\", line 6, in "
                       "load_weights\n"
                       "torch.OutOfMemoryError: CUDA out of memory.\n"
                       "2025-01-02T08:00:18.000100Z ERROR text_generation_launcher: Shard 0 failed "
                       "to start\n"
                       "Error: ShardCannotStart\n"),
            "tgi: last before-launch, failing weight-placement, recovered none, not ready");
}

TEST(TgiTimeline, SeesAShardThatWasKilled) {
  const std::string begin = warming_tgi().substr(0, warming_tgi().find("2025-01-02T08:00:19.1"));
  EXPECT_EQ(summary_of(begin + "2025-01-02T08:00:17.000100Z ERROR shard-manager: "
                               "text_generation_launcher: Shard process was signaled to shutdown "
                               "with signal 9 rank=0\n"),
            "tgi: last before-launch, failing weight-placement, recovered none, not ready");
}

TEST(TrtllmTimeline, PlacesAWholeEngineAtOnce) {
  const std::string begin = "[TensorRT-LLM][INFO] Loaded engine size: 9000 MiB\n";
  EXPECT_EQ(summary_of(begin + "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 300.10 MiB for "
                               "execution context memory.\n"
                               "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, "
                               "n, s): out of memory (tllmBuffers.h:112)\n"),
            "tensorrt-llm: last weight-placement, failing runtime-preparation, recovered none, not "
            "ready");
  EXPECT_EQ(
      summary_of(begin + "I0101 10:00:00.000000 1 model_lifecycle.cc:839] successfully loaded "
                         "'tensorrt_llm'\n"),
      "tensorrt-llm: last readiness, failing none, recovered none, ready");
}

TEST(TrtllmTimeline, ReadsItsPythonSide) {
  EXPECT_EQ(summary_of("[02/03/2026-07:20:40] [TRT-LLM] [RANK 0] [I] Prefetching 3.21GB checkpoint "
                       "files.\n"
                       "Loading weights:  50%|#####     | 300/600 [00:02<00:02, 140.11it/s]\n"
                       "Traceback (most recent call last):\n"
                       "  File \"/x/tensorrt_llm/_torch/models/modeling_utils.py\", line 3, in "
                       "load_weights\n"
                       "torch.OutOfMemoryError: CUDA out of memory.\n"),
            "tensorrt-llm: last before-launch, failing checkpoint-reading, recovered none, not "
            "ready");
}

}  // namespace
}  // namespace fragscope::stages::test
