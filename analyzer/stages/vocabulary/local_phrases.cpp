// SPDX-License-Identifier: Apache-2.0
// What llama.cpp (with its forks), ollama on top of it, and ComfyUI say while they start. llama.cpp
// reserves its buffers first and then reads into them; ComfyUI is ready before it loads anything.
#include "analyzer/stages/vocabulary/phrase.hpp"

namespace fragscope::stages {
namespace {

using enum Meaning;
using enum FactPlace;

constexpr Stage kLaunch = Stage::kBeforeLaunch;
constexpr Stage kPlacing = Stage::kWeightPlacement;
constexpr Stage kPrepare = Stage::kRuntimePreparation;
constexpr Stage kReadying = Stage::kReadiness;
constexpr Stage kServing = Stage::kRequests;

constexpr Engine kLlama = Engine::kLlamaCpp;
constexpr Engine kOllama = Engine::kOllama;
constexpr Engine kComfy = Engine::kComfyui;

constexpr Phrase kPhrases[] = {
    // --- llama.cpp
    // --------------------------------------------------------------------------------
    {" for x86_64", kLlama, kVersion, kLaunch, {"version", "build: "}},
    {" for aarch64", kLlama, kVersion, kLaunch, {"version", "build: "}},
    {" for Linux ", kLlama, kVersion, kLaunch, {"version", "build: "}},
    {" for Windows ", kLlama, kVersion, kLaunch, {"version", "build: "}},
    {"main: build = ", kLlama, kVersion, kLaunch, {"version"}},
    {"ggml_cuda_init: found ", kLlama, kBanner, kLaunch},
    {"ggml_vulkan: Found ", kLlama, kBanner, kLaunch},
    {"llama_model_loader: loaded meta data", kLlama, kWithin, kLaunch},
    {"llama_params_fit", kLlama, kWithin, kLaunch, {"wanted", "projected to use "}},
    {"loading model tensors, this can take", kLlama, kLoadBegin, kPlacing},
    {"load_tensors: ", kLlama, kWithin, kPlacing, {}, "layers to GPU"},
    {"load_tensors: ",
     kLlama,
     kWithin,
     kPlacing,
     {"weights", " model buffer size = ", {}, kDevice}},
    {"load_tensors: ", kLlama, kWithin, kPlacing, {"weights", " buffer size = ", {}, kDevice}},
    {"...........", kLlama, kDots},
    {"llama_context: constructing", kLlama, kWithin, kPrepare},
    {"llama_new_context_with_model: ", kLlama, kWithin, kPrepare},
    {"llama_kv_cache", kLlama, kWithin, kPrepare},
    {" KV buffer size = ", kLlama, kWithin, kPrepare, {"KV buffer", {}, {}, kDevice}},
    {"KV self size  = ", kLlama, kWithin, kPrepare, {"KV cache"}},
    {" compute buffer size = ", kLlama, kWithin, kPrepare, {"compute buffer", {}, {}, kDevice}},
    {"graph nodes  = ", kLlama, kWithin, kPrepare},
    {"warming up the model with an empty run", kLlama, kWithin, kPrepare},
    {"warmup with image size", kLlama, kWithin, kPrepare},
    {"warmup with audio size", kLlama, kWithin, kPrepare},
    {"main: model loaded", kLlama, kReady, kReadying},
    {"server is listening on", kLlama, kReady, kReadying},
    {"== Running in interactive mode", kLlama, kReady, kReadying},
    {"all slots are idle", kLlama, kIdle, kServing},
    {"launch_slot_", kLlama, kRequest, kServing, {}, "processing task"},
    {"launch_slot_", kLlama, kRequest, kServing, {}, "is processing"},
    {"stop processing", kLlama, kRequestDone, kServing, {}, "slot"},
    {"prompt eval time", kLlama, kRequestDone, kServing},
    {"alloc_tensor_range: failed to allocate", kLlama, kHint, kPlacing},
    {"unable to allocate ", kLlama, kFail, kPlacing, {}, " buffer"},
    {"ggml_gallocr_reserve_n", kLlama, kFail, kPrepare, {}, "failed to allocate"},
    {"failed to allocate buffer for kv cache", kLlama, kFail, kPrepare},
    {"failed to allocate compute", kLlama, kFail, kPrepare},
    {"failed to create context with model", kLlama, kFail, kPrepare},
    {"failed to initialize the context", kLlama, kFail, kPrepare},
    {"error loading model: ", kLlama, kFailHere},
    {"failed to load model", kLlama, kFollowUp, kLaunch, {}, {}, {}, true},
    {"exiting due to model loading error", kLlama, kFollowUp},
    {"retrying without pipeline parallelism", kLlama, kSurvived, kPrepare},

    // --- ollama
    // -----------------------------------------------------------------------------------
    {"Listening on ", kOllama, kVersion, kLaunch, {"version", "(version "}, "(version "},
    {"memory.required.full=", kOllama, kPrelude, kLaunch, {"wanted"}},
    {"memory.required.full=", kOllama, kPrelude, kLaunch, {"free", "memory.available="}},
    {"msg=\"starting llama server", kOllama, kBanner, kLaunch},
    {"msg=\"starting llama-server", kOllama, kBanner, kLaunch},
    {"msg=\"starting runner\"", kOllama, kBanner, kLaunch},
    {"waiting for llama runner to start", kOllama, kWithin, kPlacing},
    {"waiting for server to become available", kOllama, kWithin, kPlacing},
    {"msg=\"model weights\"", kOllama, kBegin, kPlacing, {"model weights", "size="}},
    {"msg=\"kv cache\"", kOllama, kWithin, kPrepare, {"KV cache", "size="}},
    {"msg=\"compute graph\"", kOllama, kWithin, kPrepare, {"compute graph", "size="}},
    {"llama runner started in ", kOllama, kReady, kReadying},
    {"llama-server started in ", kOllama, kReady, kReadying},
    {"| POST     \"/", kOllama, kRequestDone, kServing, {}, "| 200 |"},
    {"panic: unable to load model", kOllama, kFailHere},
    {"error loading llama server", kOllama, kFailHere},
    {"error starting llama server", kOllama, kFailHere},
    {"llama runner process has terminated", kOllama, kFailHere},
    {"llama runner process no longer running", kOllama, kFailHere},
    {"runtime OOM detected", kOllama, kFail, kServing},
    {"reducing automatic context and retrying once", kOllama, kSurvived, kPlacing},
    {"evicting all other models and retrying once", kOllama, kSurvived, kPlacing},

    // --- ComfyUI
    // ----------------------------------------------------------------------------------
    {"ComfyUI version: ", kComfy, kVersion, kLaunch, {"version"}},
    {"Total VRAM ", kComfy, kBanner, kLaunch, {"device memory"}, "total RAM"},
    {"Set vram state to:", kComfy, kWithin, kLaunch},
    {"Starting server", kComfy, kReady, kReadying, {}, {}, {}, true},
    {"To see the GUI go to:", kComfy, kReady, kReadying},
    {"got prompt", kComfy, kRequest, kServing, {}, {}, {}, true},
    {"Requested to load ", kComfy, kRequest, kServing, {}, {}, {}, true},
    {"loaded partially ", kComfy, kRequest, kServing, {"loaded", {}, "MiB"}, {}, {}, true},
    {"loaded partially; ", kComfy, kRequest, kServing, {"loaded", "usable, "}},
    {"loaded completely", kComfy, kRequest, kServing, {}, {}, {}, true},
    {"Prompt executed in ", kComfy, kRequestDone, kServing},
    {"!!! Exception during processing !!!", kComfy, kFail, kServing},
    {"Got an OOM, unloading all", kComfy, kFail, kServing},
    {"retrying with tiled VAE", kComfy, kSurvived, kServing},
};

}  // namespace

std::span<const Phrase> local_phrases() {
  return kPhrases;
}

}  // namespace fragscope::stages
