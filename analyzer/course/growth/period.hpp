// SPDX-License-Identifier: Apache-2.0
// Looks for repeats that nobody marked: a kind of allocation that comes once in each, after about
// the same number of other allocations. A kind is a stack, or, where stacks are not recorded, a
// size on a stream. Of the numbers of times that kinds come evenly spaced, the one that most kinds
// have is the number of repeats; the earliest such kind stands for the begin of each. Used by
// `repeats`.
#pragma once

#include "analyzer/course/growth/repeats.hpp"
#include "analyzer/model/course/course.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>

namespace fragscope::course {

/// Whether this is the allocation that begins a repeat.
[[nodiscard]] bool is_of_period(const Period& period, const model::CourseStep& step);

class PeriodSearch {
 public:
  /// Of kind kAlloc, in order.
  void take(const model::CourseStep& step);
  [[nodiscard]] std::optional<Period> find() const;

 private:
  struct Kind {
    std::uint32_t stack = 0;
    std::uint64_t requested_bytes = 0;
    std::int64_t stream = 0;
    friend bool operator==(const Kind&, const Kind&) = default;
    template <class H>
    friend H AbslHashValue(H state, const Kind& kind) {
      return H::combine(std::move(state), kind.stack, kind.requested_bytes, kind.stream);
    }
  };
  /// The gaps between two of a kind but for the first, which a warm-up makes longer; their mean and
  /// sum of squares by Welford's recurrence.
  struct Times {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::uint64_t count = 0;
    double mean = 0;
    double squares = 0;
  };
  [[nodiscard]] static Kind kind_of(const model::CourseStep& step);
  [[nodiscard]] bool is_even(const Times& times) const;

  absl::flat_hash_map<Kind, Times> kinds_;
  std::uint64_t allocations_ = 0;
};

}  // namespace fragscope::course
