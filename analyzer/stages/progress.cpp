// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/progress.hpp"

#include <array>

namespace fragscope::stages {

void ReadingBars::add(const Bar& bar) {
  seen_ = true;
  const bool full = bar.done >= bar.total;
  if (bar.kind == BarKind::kComponents) {
    components_open_ = !full;
    // The bars of the components are done with the components.
    if (full) begun_ = ended_ = 0;
    if (full) last_open_ = false;
    return;
  }
  if (bar.at_start) ++begun_;
  if (full) ++ended_;
  last_open_ = !full;
}

bool ReadingBars::open() const {
  return last_open_ || components_open_ || begun_ > ended_;
}

unsigned Progress::rank(Stage stage) const {
  // Reading and placing change places.
  constexpr std::array<unsigned, 6> kPlacesFirst = {0, 2, 1, 3, 4, 5};
  const std::size_t index = index_of(stage);
  return places_first_ ? kPlacesFirst[index] : static_cast<unsigned>(index);
}

void Progress::enter(Stage stage) {
  front_ = stage;
  for (const Stage earlier : kAllStages) {
    const bool weights = earlier == Stage::kCheckpointReading || earlier == Stage::kWeightPlacement;
    if (deferred_ && weights && stage == Stage::kRuntimePreparation) continue;
    if (before(earlier, stage)) completed_.add(earlier);
  }
  if (before(Stage::kWeightPlacement, stage)) {
    if (stage != Stage::kCheckpointReading) bars_.close();
    reading_ended_ = stage != Stage::kCheckpointReading;
  }
}

bool Progress::within(Stage stage) {
  if (front_ && before(stage, *front_)) return false;
  // A stage that is open already says nothing new of those before it.
  if (front_ != stage) enter(stage);
  return true;
}

void Progress::reopen(Stage stage) {
  for (const Stage later : kAllStages) {
    if (!before(later, stage)) completed_.remove(later);
  }
  front_ = stage;
}

bool Progress::begin(Stage stage) {
  if (within(stage)) {
    completed_.remove(stage);
    return true;
  }
  if (ready()) return false;
  reopen(stage);
  return true;
}

bool Progress::begin_loading() {
  if (ready()) return false;
  if (front_ && before(Stage::kBeforeLaunch, *front_)) {
    reopen(places_first_ ? Stage::kWeightPlacement : Stage::kCheckpointReading);
  }
  completed_.add(Stage::kBeforeLaunch);
  front_ = Stage::kWeightPlacement;
  bars_.close();
  reading_ended_ = false;
  return true;
}

void Progress::end(Stage stage) {
  if (stage == Stage::kWeightPlacement) deferred_ = false;
  if (front_ && before(stage, *front_)) {
    completed_.add(stage);
    return;
  }
  enter(stage);
  completed_.add(stage);
  if (stage == Stage::kCheckpointReading || stage == Stage::kWeightPlacement) {
    bars_.close();
    reading_ended_ = true;
  }
  // Where the weights are placed first, not every start reads a checkpoint afterwards.
  if (places_first_ && stage == Stage::kWeightPlacement) {
    front_ = Stage::kRuntimePreparation;
    return;
  }
  for (const Stage next : kAllStages) {
    if (rank(next) == rank(stage) + 1) front_ = next;
  }
}

bool Progress::reading_bar(const Bar& bar) {
  if (ready() || (reading_ended_ && !bar.at_start)) return false;
  if (bar.at_start) reading_ended_ = false;
  const bool late = front_ && before(Stage::kWeightPlacement, *front_) && !places_first_;
  if (late) reopen(Stage::kCheckpointReading);
  bars_.add(bar);
  if (bars_.open()) {
    completed_.add(Stage::kBeforeLaunch);
    completed_.remove(Stage::kCheckpointReading);
    front_ = Stage::kCheckpointReading;
    return true;
  }
  completed_.add(Stage::kBeforeLaunch);
  completed_.add(Stage::kCheckpointReading);
  front_ = places_first_ ? Stage::kRuntimePreparation : Stage::kWeightPlacement;
  return true;
}

void Progress::start_over() {
  completed_ = StageSet();
  front_ = Stage::kBeforeLaunch;
  bars_.close();
  reading_ended_ = false;
}

std::optional<Stage> Progress::last_completed(std::optional<Stage> failing) const {
  std::optional<Stage> last;
  for (const Stage stage : kAllStages) {
    if (!completed_.has(stage)) continue;
    if (failing && !before(stage, *failing)) continue;
    last = stage;
  }
  return last;
}

}  // namespace fragscope::stages
