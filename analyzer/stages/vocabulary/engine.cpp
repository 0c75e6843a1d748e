// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/vocabulary/engine.hpp"

#include <array>
#include <utility>

namespace fragscope::stages {
namespace {

constexpr std::array<EngineTraits, 17> kTraits = {{
    {.name = "", .steps = true},
    {.name = "torchrun", .steps = true},
    {.name = "accelerate", .steps = true},
    {.name = "transformers", .steps = true},
    {.name = "lightning", .steps = true, .binary_units = false},
    {.name = "megatron", .places_first = true, .steps = true},
    {.name = "deepspeed", .steps = true},
    {.name = "torchtitan", .hosts = true, .places_first = true, .steps = true},
    {.name = "axolotl", .hosts = true, .steps = true},
    {.name = "diffusers", .hosts = true, .steps = true},
    {.name = "comfyui", .hosts = true, .serves = true, .steps = true},
    {.name = "llama.cpp",
     .hosts = true,
     .serves = true,
     .places_first = true,
     .single_process = true},
    {.name = "ollama", .hosts = true, .serves = true, .places_first = true, .single_process = true},
    {.name = "tgi",
     .hosts = true,
     .serves = true,
     .places_first = true,
     .reads_unseen = true,
     .binary_units = false},
    {.name = "tensorrt-llm", .hosts = true, .serves = true},
    {.name = "sglang", .hosts = true, .serves = true, .warm_up_request = true},
    {.name = "vllm", .hosts = true, .serves = true},
}};

/// Package folders as they stand in tracebacks.
constexpr std::pair<std::string_view, Engine> kFolders[] = {
    {"vllm", Engine::kVllm},
    {"sglang", Engine::kSglang},
    {"text_generation_server", Engine::kTgi},
    {"tensorrt_llm", Engine::kTensorrtLlm},
    {"comfy", Engine::kComfyui},
    {"ComfyUI", Engine::kComfyui},
    {"diffusers", Engine::kDiffusers},
    {"axolotl", Engine::kAxolotl},
    {"torchtitan", Engine::kTorchtitan},
    {"deepspeed", Engine::kDeepspeed},
    {"megatron", Engine::kMegatron},
    {"nemo", Engine::kMegatron},
    {"pytorch_lightning", Engine::kLightning},
    {"lightning", Engine::kLightning},
    {"lightning_fabric", Engine::kLightning},
    {"transformers", Engine::kTransformers},
    {"trl", Engine::kTransformers},
    {"peft", Engine::kTransformers},
    {"llamafactory", Engine::kTransformers},
    {"llmtuner", Engine::kTransformers},
    {"accelerate", Engine::kAccelerate},
};

}  // namespace

const EngineTraits& traits(Engine engine) {
  return kTraits[static_cast<std::size_t>(engine)];
}

Engine engine_of_path(std::string_view path) {
  // The last part is the file itself; a script named vllm.py is no engine.
  std::size_t end = path.find_last_of("/\\");
  while (end != std::string_view::npos) {
    const std::size_t slash = end == 0 ? std::string_view::npos : path.find_last_of("/\\", end - 1);
    const std::size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
    const std::string_view folder = path.substr(begin, end - begin);
    for (const auto& [name, engine] : kFolders) {
      if (folder == name) return engine;
    }
    end = slash;
  }
  return Engine::kNone;
}

}  // namespace fragscope::stages
