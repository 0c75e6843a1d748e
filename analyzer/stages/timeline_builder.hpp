// SPDX-License-Identifier: Apache-2.0
// The start-up of inference and training engines out of their own log lines: which stages a start
// went through, which one it failed in, which failures it survived. Used by `explain`. Engines'
// words are in vocabulary/; allocator messages and what their numbers prove are not read here.
#pragma once

#include "analyzer/logtext/log_line.hpp"
#include "analyzer/stages/stage.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::stages {

/// A number that a line of the log tells, "KV cache budget" and "-2.14 GiB".
struct StageFact {
  std::string label;
  std::string value;
  std::uint64_t line = 0;
  std::string process;  ///< Empty if the line does not say.
};

/// "KV cache budget -2.14 GiB (line 12, EngineCore pid=7)"
[[nodiscard]] std::string to_string(const StageFact& fact);

struct StageRecord {
  Stage stage = Stage::kBeforeLaunch;
  std::uint64_t first_line = 0;
  std::uint64_t last_line = 0;
  std::optional<double> seconds;  ///< As the log says it, else between the first and the last line.
  bool completed = false;
  std::vector<StageFact> facts;
};

/// One start of an engine, with all its processes; also one for a rank that failed elsewhere.
struct Timeline {
  std::string process;              ///< Whose failure this is about; empty if the log does not say.
  std::string engine;               ///< "vllm"; "unknown" if no line shows it.
  std::string version;              ///< Empty if no line shows it.
  std::vector<StageRecord> stages;  ///< Those that have lines, in order.
  std::optional<Stage> last_completed;
  std::optional<Stage> failing;
  std::vector<Stage> recovered;
  bool ready = false;
};

/// The phrases without one of which a line says nothing of a stage: give the builder every line
/// that contains one (in any case); other uses of the words do no harm. None is shorter than eight
/// bytes. One that stands for a whole line begins with the line break in front of it.
[[nodiscard]] std::span<const std::string_view> stage_phrases();

/// Reads lines in the order of the log. Memory is bounded, however long the log is: of very many
/// starts the first and the last ones are kept.
class TimelineBuilder {
 public:
  TimelineBuilder();
  ~TimelineBuilder();
  TimelineBuilder(TimelineBuilder&&) noexcept;
  TimelineBuilder& operator=(TimelineBuilder&&) noexcept;

  void add(const logtext::LogLine& line);
  /// The timelines so far.
  [[nodiscard]] std::vector<Timeline> finish() const;
  /// Starts in the middle that were not kept.
  [[nodiscard]] std::uint64_t skipped_starts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fragscope::stages
