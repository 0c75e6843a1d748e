// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/failure/failure.hpp"

namespace fragscope::stages {
namespace {

bool is_loading(Stage stage) {
  return stage == Stage::kCheckpointReading || stage == Stage::kWeightPlacement;
}

/// Reading or placing? A bar says it; only where there is none does `otherwise` count.
Stage reading_or_placing(const Failure& failure, const EngineTraits& engine, Stage otherwise) {
  if (engine.reads_unseen) return Stage::kWeightPlacement;
  if (failure.reading_open) return Stage::kCheckpointReading;
  if (failure.reading_done && !engine.places_first) return Stage::kWeightPlacement;
  return otherwise;
}

/// Markers alone.
std::optional<Stage> by_markers(const Failure& failure, const EngineTraits& engine) {
  const auto front = failure.progress.front();
  if (!front || !is_loading(*front)) return front;
  const Stage otherwise = failure.late_bar_open ? Stage::kCheckpointReading : *front;
  return reading_or_placing(failure, engine, otherwise);
}

std::optional<Stage> by_strong_hint(const Failure& failure, const EngineTraits& engine) {
  const Stage hint = *failure.hints.strong;
  const auto front = failure.progress.front();
  if (hint == Stage::kRequests) return engine.warm_up_request && front ? Stage::kReadiness : hint;
  // Markers of other processes do not speak against what this one's own traceback says.
  const bool markers_hold = failure.own_progress || failure.process.empty();
  if (is_loading(hint)) {
    const bool over = failure.progress.is_complete(Stage::kWeightPlacement);
    if (over && markers_hold) return by_markers(failure, engine);
    return over ? hint : reading_or_placing(failure, engine, hint);
  }
  if (front && failure.progress.before(hint, *front) && markers_hold) {
    return by_markers(failure, engine);
  }
  return hint;
}

}  // namespace

void TracebackHints::add_engine(Engine added) {
  if (added == Engine::kNone) return;
  if (traits(added).hosts) {
    if (!traits(engine).hosts || added > engine) engine = added;
    return;
  }
  if (traits(engine).hosts) return;
  if (added == Engine::kAccelerate && engine == Engine::kTransformers) return;
  engine = added;
}

Decision decide_stage(const Failure& failure, const EngineTraits& engine) {
  if (failure.progress.ready()) return {.stage = Stage::kRequests};
  if (failure.fixed) return {.stage = failure.fixed};
  const auto marked = by_markers(failure, engine);
  if (failure.loading) {
    Stage otherwise = Stage::kWeightPlacement;
    if (marked && is_loading(*marked)) otherwise = *marked;
    if (failure.hints.strong && is_loading(*failure.hints.strong)) {
      otherwise = *failure.hints.strong;
    }
    return {.stage = reading_or_placing(failure, engine, otherwise)};
  }
  if (failure.hints.strong) {
    const auto stage = by_strong_hint(failure, engine);
    return {.stage = stage, .by_frames = stage != marked};
  }
  const auto weak = failure.hints.weak;
  if (!weak || !marked) return {.stage = weak ? weak : marked, .by_frames = weak && !marked};
  if (is_loading(*weak) && is_loading(*marked)) {
    return {.stage = reading_or_placing(failure, engine, *weak), .by_frames = *weak != *marked};
  }
  // A function that several stages call proves only that the launch is over.
  if (*marked == Stage::kBeforeLaunch) return {.stage = weak, .by_frames = true};
  return {.stage = marked};
}

std::optional<Stage> completed_before(const Failure& failure, Stage failing) {
  Progress progress = failure.progress;
  const auto front = progress.front();
  if (!front || progress.before(*front, failing)) {
    // That placing failed does not show that reading was complete: it may not have begun.
    const bool reading_done = progress.is_complete(Stage::kCheckpointReading);
    const bool unread = failing == Stage::kWeightPlacement && !reading_done;
    progress.within(unread ? Stage::kCheckpointReading : failing);
  }
  return progress.last_completed(failing);
}

}  // namespace fragscope::stages
