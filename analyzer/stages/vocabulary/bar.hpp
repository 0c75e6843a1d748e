// SPDX-License-Identifier: Apache-2.0
// Progress bars as tqdm draws them, with a name or without one. States of a bar, or bars of several
// ranks, may stand on one line.
#pragma once

#include "analyzer/stages/stage.hpp"
#include "analyzer/stages/vocabulary/engine.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace fragscope::stages {

/// What a bar counts.
enum class BarKind : std::uint8_t {
  kShards,      ///< Files or tensors of a checkpoint.
  kComponents,  ///< Models of a pipeline, each of which may have a bar of its own.
  kWithin,      ///< Pieces of work of one stage.
  kSteps,       ///< Requests, training or sampling steps.
  kNameless,    ///< A bar without a name.
  kUnknown,     ///< A name that is not in the vocabulary.
};

struct Bar {
  BarKind kind = BarKind::kUnknown;
  Stage stage = Stage::kBeforeLaunch;
  Engine engine = Engine::kNone;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  bool at_start = false;  ///< The state a bar is first drawn in.
};

/// One of these stands in every bar that matters: a name, or the state a bar is first drawn in.
/// Later states of a nameless bar have no words of their own.
inline constexpr std::array<std::string_view, 13> kBarPhrases = {"[00:00<?, ?it/s",
                                                                 "checkpoint shards",
                                                                 "Multi-thread loading",
                                                                 "Loading weights: ",
                                                                 "pipeline components",
                                                                 "Downloading shards",
                                                                 "Capturing batches",
                                                                 "CUDA graph shapes",
                                                                 "CUDA graphs (",
                                                                 "DeepGEMM warmup",
                                                                 "Sanity Checking",
                                                                 "Validation sanity",
                                                                 "Processed prompts"};

/// The bars in `text` that have a total, in order. `found` is overwritten.
void find_bars(std::string_view text, std::vector<Bar>& found);

}  // namespace fragscope::stages
