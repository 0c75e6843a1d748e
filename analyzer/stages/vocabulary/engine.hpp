// SPDX-License-Identifier: Apache-2.0
// The engines whose start-up lines are known, and what sets each apart from the others. The names
// are the contract's.
#pragma once

#include <cstdint>
#include <string_view>

namespace fragscope::stages {

/// In order of precedence within one start: libraries first, then what is built on them. An engine
/// that runs another one (ollama runs llama.cpp) comes after it.
enum class Engine : std::uint8_t {
  kNone,
  kTorchrun,
  kAccelerate,
  kTransformers,
  kLightning,
  kMegatron,
  kDeepspeed,
  kTorchtitan,
  kAxolotl,
  kDiffusers,
  kComfyui,
  kLlamaCpp,
  kOllama,
  kTgi,
  kTensorrtLlm,
  kSglang,
  kVllm,
};

struct EngineTraits {
  std::string_view name;
  /// Its log is its own: whatever libraries show up in it, the start is this engine's.
  bool hosts = false;
  /// Two of these are never one start (ollama and llama.cpp apart).
  bool serves = false;
  /// Reserves and builds the weights on the device, then reads them.
  bool places_first = false;
  /// Says nothing of reading: it counts as placing.
  bool reads_unseen = false;
  /// A bar without a name counts training or sampling steps.
  bool steps = false;
  /// One process writes the log, so a later stage in it proves that a failure was survived.
  bool single_process = false;
  /// A request of its own comes before it calls itself ready.
  bool warm_up_request = false;
  /// "GB" and "MB" in its lines are powers of 1024.
  bool binary_units = true;
};

[[nodiscard]] const EngineTraits& traits(Engine engine);

/// The engine whose code lies at this path, by the innermost folder that names one.
[[nodiscard]] Engine engine_of_path(std::string_view path);

}  // namespace fragscope::stages
