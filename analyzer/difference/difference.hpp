// SPDX-License-Identifier: Apache-2.0
// Two recordings side by side: the layers at a moment of each, who holds live memory, the segments,
// and whether it is the same program, and the same settings. The result is plain data;
// `analyzer/report/course` prints it.
#pragma once

#include "analyzer/difference/program_likeness.hpp"
#include "analyzer/difference/settings_likeness.hpp"
#include "analyzer/model/heap_state.hpp"
#include "analyzer/model/history.hpp"
#include "trace/result.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::difference {

enum class Moment : std::uint8_t {
  kFailure,  ///< Before the last failed request.
  kPeak,     ///< Behind the event with the most live.
  kEnd,
};

/// A recording with its history, and a name for the line of code that a stack stands for.
struct Side {
  const model::Recording& recording;
  const model::History& history;
  std::function<std::string(model::StackId)> place;
};

struct SideState {
  model::EventIndex event = 0;  ///< The state is the one before it.
  model::StateSummary summary;
};

/// Live bytes of one line of code.
struct HolderPair {
  model::StackId first_stack = model::kNoStack;  ///< One of those at this place, if there is any.
  model::StackId second_stack = model::kNoStack;
  bool is_in_first = false;
  bool is_in_second = false;
  std::uint64_t first_bytes = 0;
  std::uint64_t second_bytes = 0;
  std::uint64_t first_blocks = 0;
  std::uint64_t second_blocks = 0;
};

/// Segments of one kind.
struct SegmentPair {
  model::SizeClass size_class = model::SizeClass::kLarge;
  bool expandable = false;
  bool is_private = false;  ///< Of a pool other than the default one.
  std::uint64_t first_bytes = 0;
  std::uint64_t second_bytes = 0;
  std::uint64_t first_count = 0;
  std::uint64_t second_count = 0;
};

struct Difference {
  Moment moment = Moment::kEnd;
  SideState first;
  SideState second;
  std::vector<HolderPair> holders;  ///< The greatest change first.
  std::uint64_t holder_count = 0;
  std::vector<SegmentPair> segments;
  std::vector<ComparedFact> facts;
  SettingsLikeness settings = SettingsLikeness::kUnknown;
  ProgramLikeness program;
};

inline constexpr std::size_t kKeptHolderPairs = 100;

/// Without `wanted`: at the last failures where both have one, else at the peaks where both have a
/// history, else at the ends. Fails: a moment that one of them does not have.
[[nodiscard]] Result<Difference> find_difference(const Side& first,
                                                 const Side& second,
                                                 std::optional<Moment> wanted);

}  // namespace fragscope::difference
