// SPDX-License-Identifier: Apache-2.0
// What the functions of a Python traceback tell of the stage. Markers in the log come first; where
// none separates two stages, the innermost function that is in this vocabulary does.
#pragma once

#include "analyzer/stages/stage.hpp"
#include "analyzer/stages/vocabulary/engine.hpp"

#include <optional>
#include <string_view>

namespace fragscope::stages {

struct Frame {
  std::string_view path;
  std::string_view function;
};

struct FrameHint {
  Stage stage = Stage::kBeforeLaunch;
  bool strong = false;  ///< The function is called in this stage and in no other.
};

/// The frame in a line such as `File "a/b.py", line 7, in load`.
[[nodiscard]] std::optional<Frame> parse_frame(std::string_view text);

[[nodiscard]] std::optional<FrameHint> hint_of(const Frame& frame);

/// The stage of a vLLM worker's method, as its error lines name it.
[[nodiscard]] std::optional<Stage> stage_of_method(std::string_view method);

}  // namespace fragscope::stages
