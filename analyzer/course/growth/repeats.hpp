// SPDX-License-Identifier: Apache-2.0
// The times that a program did the same work again, such as its requests, and what each did to one
// device's memory. They are found by marks of one name, numbers aside, or, where nobody marks them,
// by an allocation that comes once in each. Used by `growth`. Cost: two passes over the events;
// memory by the number of names, or of allocating stacks, and of repeats.
#pragma once

#include "analyzer/course/extremes.hpp"
#include "analyzer/model/history.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::course {

/// By what repeats were told from each other.
enum class RepeatBasis : std::uint8_t {
  kNone,
  kStages,       ///< The program's, with begin and end.
  kMarks,        ///< From a mark of the program's to the next.
  kAnnotations,  ///< PyTorch's.
  kPeriod,       ///< From one allocation to the next of its kind.
};

struct Repeat {
  std::string name;
  Moment begin;
  Moment end;
  Extremes extremes;
  std::uint64_t failures = 0;
  bool has_end = false;
  bool is_known = true;  ///< The heap was, all the while.

  [[nodiscard]] bool is_whole() const {
    return has_end && is_known && extremes.most_allocated.has_value();
  }
};

/// An allocation that comes once in each repeat.
struct Period {
  model::StackId stack = model::kNoStack;
  std::uint64_t requested_bytes = 0;  ///< 0: by the stack, whatever the size.
  std::int64_t stream = 0;
  double allocations = 0;   ///< From one to the next, on average.
  double deviation = 0;     ///< Of that, by its standard deviation.
  std::uint64_t alike = 0;  ///< Kinds of allocations that come as often.
};

/// A name that could have been chosen.
struct MarkName {
  std::string name;
  RepeatBasis basis = RepeatBasis::kNone;
  std::uint64_t count = 0;
};

struct RepeatChoice {
  std::string name;        ///< Of marks to go by; empty: the ones that came most often.
  bool by_period = false;  ///< Leave marks alone.
};

inline constexpr std::size_t kMostRepeats = 100'000;
inline constexpr std::size_t kMostMarkNames = 1024;

struct Repeats {
  RepeatBasis basis = RepeatBasis::kNone;
  std::string name;  ///< Of the marks.
  std::optional<Period> period;
  bool was_period_wanted = false;
  std::vector<Repeat> all;        ///< In the order of their begins.
  std::vector<MarkName> names;    ///< Of all marks, the most frequent of each basis first.
  std::uint64_t not_kept = 0;     ///< Behind the first kMostRepeats.
  std::uint64_t overlapping = 0;  ///< That began before the one in front had ended.
  bool is_out_of_order = false;   ///< Numbers in their names do not ascend.
};

[[nodiscard]] Repeats find_repeats(const model::History& history, const RepeatChoice& choice);

}  // namespace fragscope::course
