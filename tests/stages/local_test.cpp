// SPDX-License-Identifier: Apache-2.0
// llama.cpp, ollama and ComfyUI.
#include "tests/stages/log_timelines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fragscope::stages::test {
namespace {

using ::testing::HasSubstr;

const std::string kBegin =
    "ggml_cuda_init: found 2 CUDA devices:\n"
    "build: 5100 (abc1234) with cc (Debian) for x86_64-linux-gnu\n"
    "llama_model_loader: loaded meta data with 30 key-value pairs and 300 tensors from m.gguf\n"
    "load_tensors: loading model tensors, this can take a while... (mmap = true)\n";
const std::string kPlaced = kBegin +
                            "load_tensors: offloaded 33/33 layers to GPU\n"
                            "load_tensors:        CUDA0 model buffer size =  4000.50 MiB\n"
                            "load_tensors:        CUDA1 model buffer size =  3900.25 MiB\n";
const std::string kLoaded = kPlaced + "........................................\n";
const std::string kPrepared = kLoaded +
                              "llama_context: constructing llama_context\n"
                              "llama_kv_cache:      CUDA0 KV buffer size =   512.00 MiB\n"
                              "llama_context:      CUDA0 compute buffer size =   304.75 MiB\n";

std::string out_of_memory(const std::string& next) {
  return "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 900.00 MiB on device 0: "
         "cudaMalloc failed: out of memory\n" +
         next;
}

const std::string kWeights =
    "alloc_tensor_range: failed to allocate CUDA0 buffer of size 943718400\n";
const std::string kCompute =
    "ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size 943718400\n";

TEST(LlamaTimeline, DecidesByWhatFollowsTheAllocation) {
  EXPECT_EQ(summary_of(kBegin + out_of_memory(kWeights) +
                       "llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"),
            "llama.cpp: last before-launch, failing weight-placement, recovered none, not ready");
  EXPECT_EQ(summary_of(kLoaded + out_of_memory(kCompute) +
                       "graph_reserve: failed to allocate compute buffers\n"),
            "llama.cpp: last weight-placement, failing runtime-preparation, recovered none, not "
            "ready");
  // The cache is reserved by the function that reserves the weights.
  EXPECT_EQ(summary_of(kLoaded + out_of_memory(kWeights) +
                       "llama_init_from_model: failed to initialize the context: failed to "
                       "allocate buffer for kv cache\n"),
            "llama.cpp: last weight-placement, failing runtime-preparation, recovered none, not "
            "ready");
  EXPECT_EQ(summary_of(kLoaded + out_of_memory(kWeights)),
            "llama.cpp: last weight-placement, failing runtime-preparation, recovered none, not "
            "ready");
}

TEST(LlamaTimeline, ReadsIntoBuffersThatAreThere) {
  EXPECT_EQ(summary_of(kPlaced + ".................llama_model_load: error loading model: read "
                                 "error\n"),
            "llama.cpp: last weight-placement, failing checkpoint-reading, recovered none, not "
            "ready");
  EXPECT_EQ(summary_of(kLoaded),
            "llama.cpp: last weight-placement, failing none, recovered none, not ready");
}

TEST(LlamaTimeline, RefusesHostMemoryInTheSameWords) {
  EXPECT_EQ(
      summary_of(kBegin + "llama_model_load: error loading model: unable to allocate CPU buffer\n"
                          "main: exiting due to model loading error\n"),
      "llama.cpp: last before-launch, failing weight-placement, recovered none, not ready");
}

TEST(LlamaTimeline, SurvivesARetryAndAVisionWarmUp) {
  EXPECT_EQ(
      summary_of(kLoaded + "llama_context: constructing llama_context\n" + out_of_memory(kCompute) +
                 "sched_reserve: compute buffer allocation failed, retrying without pipeline "
                 "parallelism\n"),
      "llama.cpp: last weight-placement, failing none, recovered runtime-preparation, not "
      "ready");
  EXPECT_EQ(summary_of(kPrepared + "warmup: warmup with image size = 900 x 900\n" +
                       out_of_memory(kCompute) +
                       "main: model loaded\nmain: server is listening on http://127.0.0.1:8080\n"),
            "llama.cpp: last readiness, failing none, recovered runtime-preparation, ready");
}

TEST(LlamaTimeline, FailsForGoodWhenTheRetryFailsToo) {
  EXPECT_EQ(
      summary_of(kLoaded + "llama_context: constructing llama_context\n" + out_of_memory(kCompute) +
                 "sched_reserve: compute buffer allocation failed, retrying without pipeline "
                 "parallelism\n" +
                 out_of_memory(kCompute) +
                 "llama_init_from_model: failed to create context with model 'm.gguf'\n"),
      "llama.cpp: last weight-placement, failing runtime-preparation, recovered "
      "runtime-preparation, not ready");
}

TEST(LlamaTimeline, FollowsRequests) {
  const std::string ready = kPrepared +
                            "main: server is listening on http://127.0.0.1:8080\n"
                            "srv  update_slots: all slots are idle\n";
  const std::string task = "slot launch_slot_: id  0 | task 0 | processing task\n";
  EXPECT_EQ(summary_of(ready), "llama.cpp: last readiness, failing none, recovered none, ready");
  EXPECT_EQ(summary_of(ready + task +
                       "slot      release: id  0 | task 0 | stop processing\n"
                       "srv  update_slots: all slots are idle\n"),
            "llama.cpp: last requests, failing none, recovered none, ready");
  EXPECT_EQ(summary_of(ready + task +
                       "CUDA error: out of memory\n"
                       "  current device: 0, in function alloc at ggml-cuda.cu:5\n"),
            "llama.cpp: last readiness, failing requests, recovered none, ready");
}

TEST(LlamaTimeline, KeepsDevicesApart) {
  const auto timelines = timelines_of(kPrepared);
  ASSERT_EQ(timelines.size(), 1U);
  EXPECT_EQ(timelines[0].version, "5100");
  EXPECT_THAT(facts_of(timelines[0]), HasSubstr("CUDA0 weights 4000.50 MiB (line 6)\n"));
  EXPECT_THAT(facts_of(timelines[0]), HasSubstr("CUDA1 weights 3900.25 MiB (line 7)\n"));
  EXPECT_THAT(facts_of(timelines[0]), HasSubstr("CUDA0 KV buffer 512.00 MiB"));
}

const std::string kOllama =
    "time=2025-02-03T10:00:00.000Z level=INFO source=memory.go:356 msg=\"offload to cuda\" "
    "layers.model=33 memory.available=\"[23.5 GiB]\" memory.required.full=\"9.1 GiB\"\n"
    "time=2025-02-03T10:00:00.100Z level=INFO source=server.go:380 msg=\"starting llama server\" "
    "cmd=\"ollama runner --model m\"\n"
    "time=2025-02-03T10:00:00.101Z level=INFO source=sched.go:449 msg=\"loaded runners\" count=1\n"
    "time=2025-02-03T10:00:00.200Z level=INFO source=server.go:593 msg=\"waiting for server to "
    "become available\" status=\"llm server loading model\"\n";

TEST(OllamaTimeline, OutranksTheEngineItRuns) {
  EXPECT_EQ(summary_of(kOllama + kPlaced.substr(kBegin.size()) + out_of_memory(kWeights) +
                       "llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
                       "time=2025-02-03T10:00:09.200Z level=INFO source=server.go:593 "
                       "msg=\"waiting for server to become available\" status=\"llm server "
                       "error\"\n"
                       "panic: unable to load model: m\n"),
            "ollama: last before-launch, failing weight-placement, recovered none, not ready");
}

TEST(OllamaTimeline, IsReadyOnlyWhenTheRunnerIs) {
  EXPECT_EQ(summary_of(kOllama),
            "ollama: last before-launch, failing none, recovered none, not ready");
  const std::string ready = kOllama +
                            "time=2025-02-03T10:00:09.200Z level=INFO "
                            "source=server.go:594 msg=\"llama runner started in 9.10 "
                            "seconds\"\n";
  EXPECT_EQ(summary_of(ready), "ollama: last readiness, failing none, recovered none, ready");
  EXPECT_EQ(summary_of(ready + "[GIN] 2025/02/03 - 10:00:12 | 200 |  1.3s |  127.0.0.1 | POST     "
                               "\"/api/chat\"\n"),
            "ollama: last requests, failing none, recovered none, ready");
}

TEST(OllamaTimeline, ReadsTheFallbackAsASecondStart) {
  EXPECT_EQ(summary_of(kOllama + kLoaded.substr(kBegin.size()) + out_of_memory(kCompute) +
                       "llama_init_from_gpt_params: error: failed to create context with model\n"
                       "time=2025-02-03T10:00:09.200Z level=ERROR source=server.go:281 msg=\"error "
                       "starting llama server\" error=\"llama runner process no longer running\"\n"
                       "time=2025-02-03T10:00:09.300Z level=INFO source=server.go:380 "
                       "msg=\"starting llama server\" cmd=\"cpu/ollama --model m\"\n"),
            "ollama: last weight-placement, failing runtime-preparation, recovered none, not ready "
            "| ollama: last none, failing none, recovered none, not ready");
}

TEST(OllamaTimeline, TriesLayoutsUntilOneFits) {
  const auto line = [](const std::string& what) {
    return "time=2025-09-03T10:00:01.000Z level=INFO source=device.go:1 msg=\"" + what +
           "\" device=CUDA0 size=\"4.0 GiB\"\n";
  };
  EXPECT_EQ(summary_of("time=2025-09-03T10:00:00.100Z level=INFO source=server.go:1 msg=\"starting "
                       "runner\" cmd=\"ollama runner\"\n" +
                       line("model weights") + line("kv cache") + line("compute graph") +
                       out_of_memory(kCompute) + line("model weights") + line("kv cache") +
                       line("compute graph") +
                       "time=2025-09-03T10:00:09.200Z level=INFO source=server.go:1 msg=\"llama "
                       "runner started in 9.10 seconds\"\n"),
            "ollama: last readiness, failing none, recovered runtime-preparation, ready");
}

TEST(OllamaTimeline, RetriesWithinOneStart) {
  const std::string launch =
      "time=2026-05-03T10:00:00.100Z level=INFO source=server.go:1 msg=\"starting llama-server\"\n";
  EXPECT_EQ(summary_of(launch + kLoaded.substr(kBegin.size()) + out_of_memory(kCompute) +
                       "time=2026-05-03T10:00:02.100Z level=WARN source=sched.go:1 msg=\"load "
                       "failed; reducing automatic context and retrying once\"\n" +
                       launch +
                       "time=2026-05-03T10:00:09.200Z level=INFO source=server.go:1 "
                       "msg=\"llama-server started in 5.10 seconds\"\n"),
            "ollama: last readiness, failing none, recovered runtime-preparation, ready");
}

TEST(ComfyTimeline, IsReadyBeforeAnythingIsLoaded) {
  const std::string begin =
      "[2025-06-01T20:40:02.100110] Total VRAM 24258 MB, total RAM 65455 MB\n"
      "[2025-06-01T20:40:02.210005] Set vram state to: NORMAL_VRAM\n"
      "[2025-06-01T20:40:10.331001] Starting server\n"
      "[2025-06-01T20:40:10.331502] To see the GUI go to: http://127.0.0.1:8188\n";
  const std::string job = "got prompt\nRequested to load Thing\n";
  EXPECT_EQ(summary_of(begin), "comfyui: last readiness, failing none, recovered none, ready");
  EXPECT_EQ(summary_of(begin + job + "Prompt executed in 3.10 seconds\n"),
            "comfyui: last requests, failing none, recovered none, ready");
  EXPECT_EQ(summary_of(begin + job + "Prompt executed in 3.10 seconds\n" + job +
                       "!!! Exception during processing !!! Allocation on device 0 would exceed "
                       "allowed memory. (out of memory)\n"
                       "Got an OOM, unloading all loaded models.\n"
                       "Prompt executed in 9.10 seconds\n"),
            "comfyui: last readiness, failing requests, recovered none, ready");
  EXPECT_EQ(summary_of(begin + job +
                       "Warning: Ran out of memory when regular VAE decoding, retrying with tiled "
                       "VAE decoding.\n"
                       "Prompt executed in 9.10 seconds\n"),
            "comfyui: last requests, failing none, recovered requests, ready");
}

}  // namespace
}  // namespace fragscope::stages::test
