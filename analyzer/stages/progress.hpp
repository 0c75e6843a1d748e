// SPDX-License-Identifier: Apache-2.0
// How far a start has come: which stage is open and which are complete. Kept once for a whole start
// and once for each of its processes, which may be in different stages. Used by `start`.
#pragma once

#include "analyzer/stages/stage.hpp"
#include "analyzer/stages/vocabulary/bar.hpp"

#include <cstdint>
#include <optional>

namespace fragscope::stages {

/// Whether the weights are still being read, as far as the bars show. Every rank may draw one.
class ReadingBars {
 public:
  void add(const Bar& bar);
  void close() { *this = ReadingBars(); }

  [[nodiscard]] bool seen() const { return seen_; }
  /// Below 100 %, for one bar at least.
  [[nodiscard]] bool open() const;

 private:
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
  bool last_open_ = false;
  bool components_open_ = false;
  bool seen_ = false;
};

class Progress {
 public:
  /// Engines that place the weights before they read them run through the stages in that order.
  void set_places_first(bool places_first) { places_first_ = places_first; }
  /// The weights come after the preparation; a stage of the preparation does not complete them.
  void set_deferred() { deferred_ = true; }

  /// A marker within `stage`: it is open, and what comes before it is complete. Says whether this
  /// is news: a marker of an earlier stage comes late, and changes nothing.
  bool within(Stage stage);
  /// The first marker of `stage`: as `within`, but an earlier stage opens again.
  bool begin(Stage stage);
  /// Reading and placing begin, also for a second model.
  bool begin_loading();
  void end(Stage stage);
  bool reading_bar(const Bar& bar);
  void request_done() { completed_.add(Stage::kRequests); }
  /// A retry starts over.
  void start_over();

  /// The stage that is open; none before the first marker.
  [[nodiscard]] std::optional<Stage> front() const { return front_; }
  [[nodiscard]] bool is_complete(Stage stage) const { return completed_.has(stage); }
  [[nodiscard]] bool ready() const { return completed_.has(Stage::kReadiness); }
  [[nodiscard]] const ReadingBars& bars() const { return bars_; }
  /// Whether `a` runs before `b` in this engine.
  [[nodiscard]] bool before(Stage a, Stage b) const { return rank(a) < rank(b); }
  /// The furthest complete stage, in the order of the contract; with `failing`, of those before it.
  [[nodiscard]] std::optional<Stage> last_completed(std::optional<Stage> failing) const;

 private:
  [[nodiscard]] unsigned rank(Stage stage) const;
  void enter(Stage stage);
  void reopen(Stage stage);

  std::optional<Stage> front_;
  StageSet completed_;
  ReadingBars bars_;
  bool reading_ended_ = false;  // by a marker; bars that come after it are late
  bool places_first_ = false;
  bool deferred_ = false;
};

}  // namespace fragscope::stages
