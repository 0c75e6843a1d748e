// SPDX-License-Identifier: Apache-2.0
// What vLLM (0.1 to 0.33), SGLang (0.2 to 0.5.23), Text Generation Inference (0.9 to 3.3) and
// TensorRT-LLM say while they start. What they say of failures beyond their own words for it is in
// failure_phrases.cpp.
#include "analyzer/stages/vocabulary/phrase.hpp"

namespace fragscope::stages {
namespace {

using enum Meaning;

constexpr Stage kLaunch = Stage::kBeforeLaunch;
constexpr Stage kReading = Stage::kCheckpointReading;
constexpr Stage kPlacing = Stage::kWeightPlacement;
constexpr Stage kPrepare = Stage::kRuntimePreparation;
constexpr Stage kReadying = Stage::kReadiness;
constexpr Stage kServing = Stage::kRequests;

constexpr Engine kVllm = Engine::kVllm;
constexpr Engine kSglang = Engine::kSglang;
constexpr Engine kTgi = Engine::kTgi;
constexpr Engine kTrt = Engine::kTensorrtLlm;
constexpr Engine kAny = Engine::kNone;

constexpr Phrase kPhrases[] = {
    // --- vLLM
    // -------------------------------------------------------------------------------------
    {"LLM engine (v", kVllm, kVersion, kLaunch, {"version"}},
    {"LLM engine (v", kVllm, kBanner, kLaunch},
    {"Initializing an LLM engine with config", kVllm, kBanner, kLaunch},
    {"vLLM API server version ", kVllm, kVersion, kLaunch, {"version"}},
    {"vLLM API server version ", kVllm, kPrelude, kLaunch},
    {"Starting to load model ", kVllm, kLoadBegin, kPlacing},
    {"Loading drafter model", kVllm, kLoadBegin, kPlacing},
    {"Loading weights took ", kVllm, kEnd, kReading, {}, {}, "took "},
    {"Loading model weights took ", kVllm, kEnd, kPlacing, {"model weights"}},
    {"Model loading took ", kVllm, kEnd, kPlacing, {"model weights"}},
    {"Starting profile run for multi-modal models", kVllm, kWithin, kPrepare},
    {"Encoder cache will be initialized with a budget", kVllm, kWithin, kPrepare},
    {"Memory profiling takes ", kVllm, kWithin, kPrepare},
    {"Memory profiling results: ", kVllm, kWithin, kPrepare},
    {"the current vLLM instance can use", kVllm, kWithin, kPrepare},
    {"model weights take ", kVllm, kWithin, kPrepare, {"model weights"}},
    {"non_torch_memory takes ", kVllm, kWithin, kPrepare, {"memory outside PyTorch"}},
    {"activation peak memory takes ", kVllm, kWithin, kPrepare, {"activation peak"}},
    {"memory reserved for KV Cache is ", kVllm, kWithin, kPrepare, {"KV cache budget"}},
    {"peak_torch_memory=", kVllm, kWithin, kPrepare, {"peak in PyTorch"}},
    {"non_torch_memory=", kVllm, kWithin, kPrepare, {"memory outside PyTorch"}},
    {"kv_cache_size=", kVllm, kWithin, kPrepare, {"KV cache budget"}, "profiling results"},
    {"Available KV cache memory: ", kVllm, kWithin, kPrepare, {"KV cache budget"}},
    {"# GPU blocks: ", kVllm, kWithin, kPrepare, {"KV cache", {}, "blocks"}},
    {"# cuda blocks: ", kVllm, kWithin, kPrepare, {"KV cache", {}, "blocks"}},
    {"# rocm blocks: ", kVllm, kWithin, kPrepare, {"KV cache", {}, "blocks"}},
    {"GPU KV cache size: ", kVllm, kWithin, kPrepare, {"KV cache", {}, "tokens"}},
    {"Maximum concurrency for ", kVllm, kWithin, kPrepare},
    {"Using cache directory: ", kVllm, kWithin, kPrepare, {}, "torch_compile_cache"},
    {"Dynamo bytecode transform time", kVllm, kWithin, kPrepare},
    {"Cache the graph", kVllm, kWithin, kPrepare},
    {"Compiling a graph for ", kVllm, kWithin, kPrepare},
    {"Directly load the compiled graph", kVllm, kWithin, kPrepare},
    {"torch.compile takes ", kVllm, kWithin, kPrepare, {"torch.compile", {}, "s"}, "in total"},
    {"torch.compile took ", kVllm, kWithin, kPrepare, {"torch.compile", {}, "s"}, "in total"},
    {"Initial profiling/warmup run took", kVllm, kWithin, kPrepare},
    {"Capturing the model for CUDA graphs", kVllm, kWithin, kPrepare},
    {"CUDA graphs can take additional", kVllm, kWithin, kPrepare},
    {"Capturing cudagraphs for decoding", kVllm, kWithin, kPrepare},
    {"Graph capturing finished in ", kVllm, kWithin, kPrepare, {"CUDA graphs", ", took "}},

    {"Profiling CUDA graph memory", kVllm, kWithin, kPrepare},
    {"Estimated CUDA graph memory: ", kVllm, kWithin, kPrepare, {"CUDA graphs, estimated"}},
    {"CUDA graph pool memory: ", kVllm, kWithin, kPrepare, {"CUDA graphs"}},
    {"CUDA graph memory profiling is enabled", kVllm, kWithin, kPrepare},
    {"on startup. Desired GPU memory utilization", kVllm, kWithin, kPrepare},
    {"init engine (profile", kVllm, kEnd, kPrepare, {}, {}, ") took "},
    {"Starting vLLM API server", kVllm, kWithin, kReadying},
    {"Available routes are:", kVllm, kWithin, kReadying},
    {"Application startup complete", kVllm, kReady, kReadying, {}, {}, {}, true},
    {"Uvicorn running on", kVllm, kReady, kReadying, {}, {}, {}, true},
    {"Avg prompt throughput: ", kVllm, kRunning, kServing, {"requests", "Running: "}},
    {"Received request ", kVllm, kRequest, kServing, {}, {}, {}, true},
    {"Finished request ", kVllm, kRequestDone, kServing, {}, {}, {}, true},
    {"on startup is less than desired", kVllm, kFail, kLaunch},
    {"Failed to load model - not enough GPU memory", kVllm, kFailLoading, kPlacing},
    {"No available memory for the cache blocks", kVllm, kFail, kPrepare},
    {"To serve at least one request with the model", kVllm, kFail, kPrepare},
    {"tokens that can be stored in KV cache", kVllm, kFail, kPrepare},
    {"create tensor with negative dimension", kVllm, kFail, kPrepare, {}, {}, {}, true},
    {"occurred when warming up ", kVllm, kFail, kPrepare},
    {"while processing method ", kVllm, kFailMethod},
    {"Error executing method ", kVllm, kFailMethod},
    {"EngineCore hit an exception", kVllm, kFailHere},
    {"EngineCore failed to start", kVllm, kFailHere},
    {"EngineCore encountered a fatal error", kVllm, kFail, kServing},
    {"Engine background task failed", kVllm, kFail, kServing},
    {"WorkerProc hit an exception", kVllm, kFailHere},
    {"WorkerProc failed to start", kVllm, kFailHere},
    {"WorkerProc initialization failed", kVllm, kFollowUp},
    {"Engine core initialization failed", kVllm, kFollowUp},
    {"EngineDeadError", kVllm, kFollowUp, kLaunch, {}, {}, {}, true},
    {"Background loop has errored already", kVllm, kFollowUp},

    // --- SGLang
    // -----------------------------------------------------------------------------------
    {"server_args=ServerArgs(", kSglang, kBanner, kLaunch},
    {"Init torch distributed begin", kSglang, kWithin, kLaunch},
    {"Init torch distributed ends", kSglang, kWithin, kLaunch},
    {"Init nccl begin", kSglang, kWithin, kLaunch},
    {"Prepared capture-safe model", kSglang, kDeferred, kPlacing},
    {"Load weight begin", kSglang, kLoadBegin, kPlacing, {"free before", "avail mem="}},
    {"Load weight end", kSglang, kEnd, kPlacing, {"model weights", "mem usage="}, {}, "elapsed="},
    {"Committed real weights after ", kSglang, kEnd, kPlacing, {}, {}, "capture in "},
    {"The available memory for KV cache is ", kSglang, kWithin, kPrepare, {"KV cache budget"}},
    {"is larger than the profiled value ",
     kSglang,
     kWithin,
     kPrepare,
     {"KV cache, profiled", {}, "tokens"}},
    {"KV Cache is allocated", kSglang, kWithin, kPrepare, {"KV cache", "#tokens: ", "tokens"}},
    {"KV Cache is allocated", kSglang, kWithin, kPrepare, {"keys", " K size: "}},
    {"KV Cache is allocated", kSglang, kWithin, kPrepare, {"values", " V size: "}},
    {"KV Cache is allocated", kSglang, kWithin, kPrepare, {"KV cache bytes", "KV size: "}},
    {"Mamba Cache is allocated", kSglang, kWithin, kPrepare},
    {"Memory pool end", kSglang, kWithin, kPrepare, {"free after the pool", "avail mem="}},
    {"cuda graph begin.", kSglang, kWithin, kPrepare},
    {"CUDA graph begin.", kSglang, kWithin, kPrepare},
    {"cuda graph end.", kSglang, kWithin, kPrepare, {"CUDA graphs", "mem usage="}},
    {"CUDA graph end.", kSglang, kWithin, kPrepare, {"CUDA graphs", "mem usage="}},
    {"max_total_num_tokens=", kSglang, kEnd, kPrepare, {"free when ready", "available_gpu_mem="}},
    {"Application startup complete", kSglang, kWithin, kReadying, {}, {}, {}, true},
    {"Uvicorn running on", kSglang, kWithin, kReadying, {}, {}, {}, true},
    {"The server is fired up and ready", kSglang, kReady, kReadying},
    {"Prefill batch", kSglang, kWarmUp, kServing, {}, "#new-seq"},
    {"Decode batch", kSglang, kRequest, kServing, {}, "#running-req"},
    {"KV cache pool is full. Retract", kSglang, kRequest, kServing},
    {"Please try to increase --mem-fraction-static", kSglang, kFail, kPrepare},
    {"leave no GPU memory for the KV cache", kSglang, kFail, kPrepare},
    {"Capture cuda graph failed", kSglang, kFail, kPrepare},
    {"Capture CUDA graph failed", kSglang, kFail, kPrepare},
    {"could finish the model loading, but there are other ranks", kSglang, kFailLoading, kPlacing},
    {"Scheduler hit an exception", kSglang, kFailHere},
    {"Exception in run_tp_server", kSglang, kFailHere},
    {"Received sigquit from a child process", kSglang, kFollowUp},
    {"Initialization failed. warmup error", kSglang, kFail, kReadying},

    // --- Text Generation Inference
    // ----------------------------------------------------------------
    {"text_generation_launcher: Args {", kTgi, kBanner, kLaunch},
    {"text_generation_launcher: ", kTgi, kMention},
    {"Starting download process", kTgi, kWithin, kLaunch},
    {"Starting check and download process", kTgi, kWithin, kLaunch},
    {"Files are already present on the host", kTgi, kWithin, kLaunch},
    {"Successfully downloaded weights", kTgi, kWithin, kLaunch},
    {"text_generation_launcher: Starting shard", kTgi, kLoadBegin, kPlacing},
    {"Waiting for shard", kTgi, kWithin, kPlacing},
    {"Server started at unix://", kTgi, kWithin, kPlacing},
    {"text_generation_launcher: Shard", kTgi, kEnd, kPlacing, {}, " ready in ", " ready in "},
    {"Warming up model", kTgi, kWithin, kPrepare, {}, "text_generation"},
    {"KV-cache blocks: ", kTgi, kWithin, kPrepare, {"KV cache", {}, "blocks"}},
    {"GB , (real: ", kTgi, kWithin, kPrepare, {"free", "Free memory "}},
    {"Cuda Graphs are enabled for sizes", kTgi, kWithin, kPrepare},
    {"Setting max batch total tokens to ", kTgi, kWithin, kPrepare, {"batch", {}, "tokens"}},
    {"Using backend V", kTgi, kEnd, kPrepare, {}, "text_generation"},
    {"Invalid hostname, defaulting to", kTgi, kEnd, kPrepare},
    {": Connected", kTgi, kReady, kReadying, {}, "text_generation"},
    {"}: text_generation_router", kTgi, kRequestDone, kServing, {}, ": Success"},
    {"Error when initializing model", kTgi, kFail, kPlacing},
    {"text_generation_launcher: Shard", kTgi, kFail, kPlacing, {}, " failed to start"},
    {"ShardCannotStart", kTgi, kFail, kPlacing},
    {"Method Warmup encountered an error", kTgi, kFail, kPrepare},
    {"Not enough memory to handle ", kTgi, kFail, kPrepare},
    {"Unable to warmup model", kTgi, kFail, kPrepare},
    {"}:warmup: text_generation", kTgi, kFail, kPrepare, {}, "ERROR"},
    {"Webserver Crashed", kTgi, kFollowUp},
    {"WebserverFailed", kTgi, kFollowUp},
    {"Decode cuda graph warmup failed", kTgi, kSurvivedBefore, kPrepare},
    {"Method Prefill encountered an error", kTgi, kFail, kServing},
    {"Method Decode encountered an error", kTgi, kFail, kServing},
    {"Method Embed encountered an error", kTgi, kFail, kServing},
    {"was signaled to shutdown with signal", kTgi, kFailHere},

    // --- TensorRT-LLM
    // -----------------------------------------------------------------------------
    {"[TensorRT-LLM]", kTrt, kMention},
    {"[TRT-LLM] [", kTrt, kMention},
    {"TensorRT-LLM version: ", kTrt, kVersion, kLaunch, {"version"}},
    {"checkpoint files.", kTrt, kWithin, kReading, {"checkpoint", "Prefetching "}, {}, {}, true},
    {"Loaded engine size: ", kTrt, kEnd, kPlacing, {"model weights"}},
    {" for model weights", kTrt, kEnd, kPlacing, {"model weights", " uses "}, "Rank "},
    {" for execution context memory", kTrt, kWithin, kPrepare, {"execution context", "Allocated "}},
    {" for runtime buffers", kTrt, kWithin, kPrepare, {"runtime buffers", "Allocated "}},
    {"for max tokens in paged KV cache", kTrt, kWithin, kPrepare, {"KV cache", "Allocated "}},
    {"blocks in KV cache primary pool: ", kTrt, kWithin, kPrepare, {"KV cache", {}, "blocks"}},
    {"Max KV cache blocks per sequence", kTrt, kWithin, kPrepare},
    {"Running autotuner warmup", kTrt, kWithin, kPrepare},
    {"Autotuning process ", kTrt, kWithin, kPrepare},
    {"Creating CUDA graph instances for ", kTrt, kWithin, kPrepare},
    {"successfully loaded 'tensorrt_llm", kTrt, kReady, kReadying},
    {"Application startup complete", kTrt, kReady, kReadying, {}, {}, {}, true},
    {"Uvicorn running on", kTrt, kReady, kReadying, {}, {}, {}, true},
    {"Impossible to fit in any sequence in kvCache", kTrt, kFail, kPrepare},
    {"Executor creation failed due to insufficient GPU memory", kTrt, kFail, kPrepare},

    // --- the HTTP server that most of them use
    // ----------------------------------------------------
    {"Started server process", kAny, kWithin, kReadying, {}, {}, {}, true},
    {"Waiting for application startup", kAny, kWithin, kReadying, {}, {}, {}, true},
    {"HTTP/1.1\" 200", kAny, kAnswered, kServing, {}, "POST "},
};

}  // namespace

std::span<const Phrase> serving_phrases() {
  return kPhrases;
}

}  // namespace fragscope::stages
