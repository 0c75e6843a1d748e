// SPDX-License-Identifier: Apache-2.0
// What each stage of a program did to one device's memory: the highest levels inside it, what it
// left behind, and what was there for a while only. Stages are what the program says by marks, or
// PyTorch's annotations. The result is plain data; `analyzer/report/course` prints it.
//
// Cost: one pass over the events, whatever the number of stages that are open at once; memory by
// the number of stages' names. Then one walk for the stacks of the few stages that moved most.
#pragma once

#include "analyzer/course/extremes.hpp"
#include "analyzer/model/history.hpp"
#include "analyzer/stages/stage.hpp"
#include "analyzer/verdict/evidence.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::course {

/// Who says that a stage begins and ends.
enum class StageSource : std::uint8_t {
  kProgram,     ///< Its begin and its end.
  kPoint,       ///< A mark without an end: the stage lasts until the next mark.
  kAnnotation,  ///< PyTorch's.
  kNobody,      ///< What lies outside of all stages.
};

/// One time that the program was in a stage.
struct StageSpan {
  Moment begin;
  Moment end;
  Extremes extremes;
  std::int64_t begin_us = model::kNoTime;
  std::int64_t end_us = model::kNoTime;
  bool has_end = false;   ///< Else the recording ends first, or marks are missing.
  bool is_known = false;  ///< The heap was known at its begin and at its end, and between.

  /// Live bytes at the end less those at the begin.
  [[nodiscard]] std::int64_t stays_bytes() const;
  /// Live bytes at the peak above both the begin and the end.
  [[nodiscard]] std::uint64_t temporary_bytes() const;
};

/// Live bytes of one stack.
struct StackChange {
  model::StackId stack = model::kNoStack;
  std::uint64_t begin_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t end_bytes = 0;
};

/// All times of stages with one name, digits aside.
struct StageGroup {
  std::string name;                    ///< With "#" for numbers that differ.
  std::optional<stages::Stage> stage;  ///< Where the name is one of the known ones.
  StageSource source = StageSource::kProgram;
  std::uint64_t count = 0;
  std::uint64_t unknown_count = 0;  ///< Of these, times when the heap was not always known.
  std::uint64_t failures = 0;       ///< Requests refused while it was the innermost.
  StageSpan first;
  StageSpan last;
  StageSpan highest;             ///< With the highest peak; the earliest on ties.
  std::int64_t stays_bytes = 0;  ///< Of all times together.
  std::uint64_t most_temporary_bytes = 0;
  /// Of `highest`, by stack, the most first; only where it moved much.
  std::vector<StackChange> temporary;  ///< More at the peak than at both ends.
  std::vector<StackChange> stays;      ///< More at the end than at the begin.
};

/// A mark between stages.
struct PointMark {
  std::string name;
  std::int64_t time_us = model::kNoTime;
  std::optional<Moment> at;  ///< None: the heap was not known.
};

struct StageFailure {
  model::EventIndex event = 0;
  std::uint64_t requested_bytes = 0;
  std::size_t group = 0;  ///< Innermost; of the thread that asked, if it had said any.
  bool is_of_thread = false;
};

/// Lists are kept up to here; more names share the last group.
inline constexpr std::size_t kMostStageGroups = 1024;
inline constexpr std::size_t kKeptPoints = 256;
inline constexpr std::size_t kKeptStageFailures = 100;
inline constexpr std::size_t kKeptStacks = 16;

struct StageMemory {
  std::vector<StageGroup> groups;  ///< In the order of their first begin.
  std::vector<PointMark> points;   ///< Where stages have begins and ends of their own.
  std::uint64_t point_count = 0;
  std::vector<StageFailure> failures;
  std::uint64_t failure_count = 0;
  std::uint64_t unmatched_ends = 0;  ///< Ends of stages whose begin was not seen.
  std::uint64_t gaps = 0;            ///< Times that the heap was not known.
  bool has_stages = false;           ///< Else there is one group: all of it.
};

[[nodiscard]] StageMemory find_stages(const model::History& history);

}  // namespace fragscope::course
