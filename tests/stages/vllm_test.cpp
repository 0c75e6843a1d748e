// SPDX-License-Identifier: Apache-2.0
#include "tests/stages/log_timelines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fragscope::stages::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPrepareFailed =
    "vllm: last weight-placement, failing runtime-preparation, recovered none, not ready";

/// V1, one process, up to the end of placement.
std::string loaded_v1() {
  return "(EngineCore_DP0 pid=41) INFO 02-03 10:00:01 [core.py:77] Initializing a V1 LLM engine "
         "(v0.12.0) with config: model='acme/base-9b', tensor_parallel_size=1\n"
         "(EngineCore_DP0 pid=41) INFO 02-03 10:00:05 [gpu_model_runner.py:2602] Starting to load "
         "model acme/base-9b...\n"
         "(EngineCore_DP0 pid=41) Loading safetensors checkpoint shards: 100% Completed | 3/3 "
         "[00:02<00:00,  1.10it/s]\n"
         "(EngineCore_DP0 pid=41) INFO 02-03 10:00:09 [default_loader.py:267] Loading weights took "
         "2.90 seconds\n"
         "(EngineCore_DP0 pid=41) INFO 02-03 10:00:10 [gpu_model_runner.py:2653] Model loading "
         "took "
         "17.1250 GiB and 4.100000 seconds\n";
}

TEST(VllmTimeline, ReachesRequestsInACompleteStart) {
  const std::string log =
      loaded_v1() +
      "(EngineCore_DP0 pid=41) INFO 02-03 10:00:20 [gpu_worker.py:298] Available KV cache memory: "
      "3.50 GiB\n"
      "(EngineCore_DP0 pid=41) INFO 02-03 10:00:21 [kv_cache_utils.py:1087] GPU KV cache size: "
      "30,720 tokens\n"
      "(EngineCore_DP0 pid=41) INFO 02-03 10:00:29 [gpu_model_runner.py:3480] Graph capturing "
      "finished in 4 secs, took 0.61 GiB\n"
      "(EngineCore_DP0 pid=41) INFO 02-03 10:00:30 [core.py:210] init engine (profile, create kv "
      "cache, warmup model) took 20.10 seconds\n"
      "(APIServer pid=9) INFO 02-03 10:00:31 [api_server.py:1912] Starting vLLM API server 0 on "
      "http://0.0.0.0:8000\n"
      "(APIServer pid=9) INFO:     Application startup complete.\n"
      "(APIServer pid=9) INFO 02-03 10:01:40 [loggers.py:123] Engine 000: Avg prompt throughput: "
      "12.0 tokens/s, Avg generation throughput: 30.1 tokens/s, Running: 1 reqs, Waiting: 0 reqs\n"
      "(APIServer pid=9) INFO:     10.0.0.8:51000 - \"POST /v1/completions HTTP/1.1\" 200 OK\n";

  const auto timelines = timelines_of(log);

  ASSERT_EQ(timelines.size(), 1U);
  EXPECT_EQ(summary_of(timelines[0]), "vllm: last requests, failing none, recovered none, ready");
  EXPECT_EQ(timelines[0].version, "0.12.0");
  EXPECT_THAT(facts_of(timelines[0]),
              HasSubstr("model weights 17.1250 GiB (line 5, EngineCore_DP0 pid=41)\n"));
  EXPECT_THAT(facts_of(timelines[0]), HasSubstr("KV cache budget 3.50 GiB (line 6"));
  EXPECT_THAT(facts_of(timelines[0]), HasSubstr("KV cache 30,720 tokens (line 7"));
  EXPECT_THAT(facts_of(timelines[0]), HasSubstr("CUDA graphs 0.61 GiB (line 8"));
  ASSERT_EQ(timelines[0].stages.size(), 6U);
  EXPECT_EQ(timelines[0].stages[1].seconds, 2.9);
  EXPECT_EQ(timelines[0].stages[3].seconds, 20.1);
}

TEST(VllmTimeline, TakesTheApiServerLineForReadinessUnderWay) {
  EXPECT_EQ(summary_of(loaded_v1() +
                       "(EngineCore_DP0 pid=41) INFO 02-03 10:00:30 [core.py:210] init engine "
                       "(profile, create kv cache, warmup model) took 20.10 s (compilation: 9 s)\n"
                       "INFO 02-03 10:00:31 [api_server.py:1] Starting vLLM API server 0 on "
                       "http://0.0.0.0:8000\n"
                       "INFO 02-03 10:00:31 [launcher.py:28] Available routes are:\n"),
            "vllm: last runtime-preparation, failing none, recovered none, not ready");
}

TEST(VllmTimeline, KnowsEveryCheckOfItsCache) {
  const std::string prefix = "(EngineCore_DP0 pid=41) ERROR 02-03 10:00:22 [core.py:708] ";
  for (const std::string check :
       {"ValueError: No available memory for the cache blocks. Try increasing it.",
        "ValueError: To serve at least one request with the models's max seq len (65536), (8.00 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (2.10 GiB).",
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens "
        "that can be stored in KV cache (10240)."}) {
    std::string log = loaded_v1();
    log += prefix + "EngineCore failed to start.\n";
    log += prefix + check;
    EXPECT_EQ(summary_of(log), kPrepareFailed) << check;
  }
}

TEST(VllmTimeline, FailsBeforeLaunchWhenTheDeviceIsTaken) {
  EXPECT_EQ(summary_of("(EngineCore pid=3) INFO 02-03 10:00:01 [core.py:77] Initializing a V1 LLM "
                       "engine (v0.30.0) with config: model='m'\n"
                       "(EngineCore pid=3) ERROR 02-03 10:00:03 [core.py:1] EngineCore failed to "
                       "start.\n"
                       "(EngineCore pid=3) ERROR 02-03 10:00:03 [core.py:1] ValueError: Free "
                       "memory on device cuda:0 (2.10/79.10 GiB) on startup is less than desired "
                       "GPU memory utilization (0.9, 71.19 GiB).\n"),
            "vllm: last none, failing before-launch, recovered none, not ready");
}

TEST(VllmTimeline, TellsReadingFromPlacingByTheBar) {
  const std::string begin =
      "INFO 03-04 09:00:00 [llm_engine.py:234] Initializing a V0 LLM engine (v0.8.2) with config: "
      "model='m'\n"
      "INFO 03-04 09:00:04 [model_runner.py:1110] Starting to load model m...\n";
  const std::string end =
      "Traceback (most recent call last):\n"
      "  File \"/opt/env/vllm/worker/model_runner.py\", line 9, in load_model\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB.\n";
  const std::string open =
      "Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:03,  1.00s/it]\n";
  const std::string full =
      "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:04<00:00,  1.00s/it]\n";

  EXPECT_EQ(summary_of(begin + end),
            "vllm: last before-launch, failing weight-placement, recovered none, not ready");
  EXPECT_EQ(summary_of(begin + open + end),
            "vllm: last before-launch, failing checkpoint-reading, recovered none, not ready");
  EXPECT_EQ(summary_of(begin + open + full + end),
            "vllm: last checkpoint-reading, failing weight-placement, recovered none, not ready");
}

TEST(VllmTimeline, TakesTheOneBarForAllWorkers) {
  EXPECT_EQ(
      summary_of("(VllmWorkerProcess pid=7) INFO 03-04 09:00:04 [m.py:1] Starting to load model "
                 "m...\n"
                 "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:04<00:00,  "
                 "1.00s/it]\n"
                 "(VllmWorkerProcess pid=7) ERROR 03-04 09:00:09 [m.py:1] Exception in worker "
                 "VllmWorkerProcess while processing method load_model.\n"
                 "(VllmWorkerProcess pid=7) ERROR 03-04 09:00:09 [m.py:1] "
                 "torch.OutOfMemoryError: CUDA out of memory.\n"),
      "vllm: last checkpoint-reading, failing weight-placement, recovered none, not ready");
}

TEST(VllmTimeline, BelievesABarThatIsPrintedAfterTheTraceback) {
  EXPECT_EQ(summary_of("(EngineCore_DP0 pid=5) INFO 03-04 09:00:00 [core.py:1] Initializing a V1 "
                       "LLM engine (v0.13.0) with config: model='m'\n"
                       "(EngineCore_DP0 pid=5) INFO 03-04 09:00:04 [g.py:1] Starting to load model "
                       "m...\n"
                       "(EngineCore_DP0 pid=5) ERROR 03-04 09:00:09 [core.py:1] EngineCore failed "
                       "to start.\n"
                       "(EngineCore_DP0 pid=5) ERROR 03-04 09:00:09 [core.py:1] "
                       "torch.OutOfMemoryError: CUDA out of memory.\n"
                       "(EngineCore_DP0 pid=5) Loading safetensors checkpoint shards:  50% "
                       "Completed | 4/8 [00:04<00:04,  1.00s/it]\n"),
            "vllm: last before-launch, failing checkpoint-reading, recovered none, not ready");
}

TEST(VllmTimeline, TakesTheStageFromTheFailedMethod) {
  const std::string begin =
      "INFO 08-16 07:50:20 llm_engine.py:174] Initializing an LLM engine (v0.6.1) with config: "
      "model='m'\n"
      "INFO 08-16 07:50:30 model_runner.py:720] Starting to load model m...\n"
      "INFO 08-16 07:51:03 model_runner.py:732] Loading model weights took 12.5 GB\n";
  const std::string worker =
      "(VllmWorkerProcess pid=77) ERROR 08-16 07:51:19 multiproc_worker_utils.py:226] Exception in "
      "worker VllmWorkerProcess while processing method ";
  const std::string oom =
      ": CUDA out of memory. Tried to allocate 1.00 GiB., Traceback (most "
      "recent call last):\n";

  EXPECT_EQ(summary_of(begin + worker + "determine_num_available_blocks" + oom), kPrepareFailed);
  EXPECT_EQ(summary_of(begin + worker + "initialize_cache" + oom), kPrepareFailed);
  EXPECT_EQ(summary_of(begin + worker + "execute_model" + oom),
            "vllm: last readiness, failing requests, recovered none, ready");
}

TEST(VllmTimeline, GoesOnlyByTheWorkerThatFailed) {
  // Rank 0 is through with loading when rank 1 still reads.
  const std::string log =
      "(EngineCore_DP0 pid=1) INFO 01-01 10:00:00 [core.py:1] Initializing a V1 LLM engine "
      "(v0.11.2) with config: model='m'\n"
      "(Worker_TP0 pid=10) INFO 01-01 10:00:05 [r.py:1] Starting to load model m...\n"
      "(Worker_TP1 pid=11) INFO 01-01 10:00:05 [r.py:1] Starting to load model m...\n"
      "(Worker_TP0 pid=10) INFO 01-01 10:00:25 [l.py:1] Loading weights took 19.00 seconds\n"
      "(Worker_TP0 pid=10) INFO 01-01 10:00:26 [r.py:1] Model loading took 30.0 GiB and 21.0 "
      "seconds\n"
      "(Worker_TP1 pid=11) ERROR 01-01 10:00:27 [m.py:1] WorkerProc failed to start.\n"
      "(Worker_TP1 pid=11) ERROR 01-01 10:00:27 [m.py:1] Traceback (most recent call last):\n"
      "(Worker_TP1 pid=11) ERROR 01-01 10:00:27 [m.py:1]   File \"/x/vllm/model_executor/"
      "model_loader/default_loader.py\", line 3, in load_weights\n"
      "(Worker_TP1 pid=11) ERROR 01-01 10:00:27 [m.py:1] torch.OutOfMemoryError: CUDA out of "
      "memory. Tried to allocate 64.00 MiB.\n"
      "(EngineCore_DP0 pid=1) ERROR 01-01 10:00:28 [core.py:1] EngineCore failed to start.\n";

  const auto timelines = timelines_of(log);

  ASSERT_EQ(timelines.size(), 1U);
  EXPECT_EQ(summary_of(timelines[0]),
            "vllm: last before-launch, failing checkpoint-reading, recovered none, not ready");
  EXPECT_EQ(timelines[0].process, "Worker_TP1 pid=11");
}

TEST(VllmTimeline, DoesNotTakeInformationForAFailure) {
  EXPECT_EQ(
      summary_of(
          loaded_v1() +
          "(EngineCore_DP0 pid=41) INFO 02-03 10:00:21 [m.py:1] Capturing cudagraphs for "
          "decoding. If out-of-memory error occurs during cudagraph capture, consider less.\n"
          "(EngineCore_DP0 pid=41) INFO 02-03 10:00:21 [m.py:1] CUDA graphs can take "
          "additional 1~3 GiB memory per GPU. If you are running out of memory, use eager.\n"
          "(EngineCore_DP0 pid=41) WARNING 02-03 10:00:21 [m.py:1] A larger batch could lead "
          "to CUDA out of memory.\n"
          "(EngineCore_DP0 pid=41) INFO 02-03 10:00:30 [w.py:1] Free memory on device "
          "(22.7/23.5 GiB) on startup. Desired GPU memory utilization is (0.9, 21.15 GiB).\n"),
      "vllm: last weight-placement, failing none, recovered none, not ready");
}

TEST(VllmTimeline, TellsTwoStartsByTheirBanners) {
  const std::string failed = loaded_v1() +
                             "(EngineCore_DP0 pid=41) ERROR 02-03 10:00:22 [core.py:708] "
                             "ValueError: No available memory for the cache blocks.\n"
                             "(APIServer pid=9) RuntimeError: Engine core initialization failed. "
                             "See root cause above. Failed core proc(s): {}\n";
  const std::string good = "vllm: last weight-placement, failing none, recovered none, not ready";

  EXPECT_EQ(summary_of(failed + loaded_v1()), std::string(kPrepareFailed) + " | " + good);
  // Without a word of why the first one ended.
  EXPECT_EQ(summary_of(loaded_v1() + loaded_v1()), good + " | " + good);
}

TEST(VllmTimeline, KeepsParallelEnginesOfOneStartTogether) {
  const auto banner = [](const std::string& process) {
    return "(" + process +
           ") INFO 02-03 10:00:01 [core.py:77] Initializing a V1 LLM engine "
           "(v0.12.0) with config: model='m'\n";
  };
  EXPECT_EQ(timelines_of(banner("EngineCore_DP0 pid=4") + banner("EngineCore_DP1 pid=5") +
                         "(EngineCore_DP0 pid=4) INFO 02-03 10:00:05 [r.py:1] Starting to load "
                         "model m...\n" +
                         banner("EngineCore_DP2 pid=6"))
                .size(),
            1U);
}

TEST(VllmTimeline, CountsFailuresAfterReadinessAsRequests) {
  EXPECT_EQ(summary_of(loaded_v1() +
                       "INFO:     Application startup complete.\n"
                       "(EngineCore_DP0 pid=41) ERROR 02-03 11:00:00 [core.py:1] EngineCore "
                       "encountered a fatal error.\n"
                       "(EngineCore_DP0 pid=41) ERROR 02-03 11:00:00 [core.py:1]   File "
                       "\"/x/vllm/v1/worker/gpu_model_runner.py\", line 3, in _dummy_run\n"
                       "(EngineCore_DP0 pid=41) ERROR 02-03 11:00:00 [core.py:1] "
                       "torch.OutOfMemoryError: CUDA out of memory.\n"),
            "vllm: last readiness, failing requests, recovered none, ready");
}

TEST(VllmTimeline, TakesTheOfflineBarForTheFirstRequest) {
  const std::string begin =
      "INFO 08-07 07:11:24 llm_engine.py:176] Initializing an LLM engine (v0.5.3) with config: "
      "model='m'\n"
      "INFO 08-07 07:11:28 model_runner.py:692] Loading model weights took 14.5 GB\n"
      "INFO 08-07 07:11:31 gpu_executor.py:102] # GPU blocks: 7877, # CPU blocks: 512\n"
      "Processed prompts:   0%|          | 0/20 [00:00<?, ?it/s]\n";
  EXPECT_EQ(summary_of(begin), "vllm: last readiness, failing none, recovered none, ready");
  EXPECT_EQ(summary_of(begin + "Processed prompts: 100%|####| 20/20 [00:09<00:00, 2.00it/s]\n"),
            "vllm: last requests, failing none, recovered none, ready");
}

}  // namespace
}  // namespace fragscope::stages::test
