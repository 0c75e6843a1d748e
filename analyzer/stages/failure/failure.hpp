// SPDX-License-Identifier: Apache-2.0
// One failure and what the log says of the stage it happened in. The stage is decided at the end,
// since the lines that tell it (frames, what llama.cpp prints next, late bars) come after the
// first.
#pragma once

#include "analyzer/stages/progress.hpp"
#include "analyzer/stages/vocabulary/frame.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace fragscope::stages {

/// What the frames of a traceback say, the innermost last.
struct TracebackHints {
  std::optional<Stage> strong;
  std::optional<Stage> weak;
  Engine engine = Engine::kNone;

  void add(const FrameHint& hint) { (hint.strong ? strong : weak) = hint.stage; }
  /// An engine outranks the libraries it is built on, whoever comes last.
  void add_engine(Engine added);
  [[nodiscard]] bool empty() const { return !strong && !weak && engine == Engine::kNone; }
};

/// How sure it is that a failure is the root of others. Later ones are surer.
enum class Rooting : std::uint8_t {
  kFollowUp,   ///< Somebody noticed another one's end.
  kException,  ///< Some error ended something.
  kRoot,       ///< Memory was short, or the engine's own words name a cause.
};

struct Failure {
  std::string process;
  std::uint64_t first_line = 0;
  std::uint64_t last_line = 0;
  Rooting rooting = Rooting::kFollowUp;
  bool provisional = false;  ///< An error that the process may have caught.

  Progress progress;          ///< At the first line.
  bool own_progress = false;  ///< Of the process itself, not of the start as a whole.
  bool reading_open = false;  ///< A bar below 100 %.
  bool reading_done = false;
  bool late_bar_open = false;     ///< A bar below 100 % that was printed afterwards.
  bool traceback_done = false;    ///< Frames that come now belong to a chained exception.
  std::uint64_t steps_after = 0;  ///< Steps that were done after it.

  std::optional<Stage> fixed;  ///< The failure's own words say it.
  bool loading = false;        ///< Reading or placing; markers tell which.
  TracebackHints hints;
};

struct Decision {
  std::optional<Stage> stage;
  bool by_frames = false;
};

[[nodiscard]] Decision decide_stage(const Failure& failure, const EngineTraits& engine);

/// What was complete before `failing`.
[[nodiscard]] std::optional<Stage> completed_before(const Failure& failure, Stage failing);

}  // namespace fragscope::stages
