// SPDX-License-Identifier: Apache-2.0
// The highest and lowest levels of a stretch of events, each with its moment. Used by `stages` and
// `growth`.
#pragma once

#include "analyzer/model/course/course.hpp"

#include <cstdint>
#include <optional>

namespace fragscope::course {

/// A level with the event behind which it stood.
struct Moment {
  model::EventIndex event = model::kBeforeFirst;
  model::CourseLevels levels;
};

/// What was seen of a stretch of events. Nothing, until the heap was known in it.
struct Extremes {
  std::optional<Moment> most_allocated;  ///< The earliest on ties.
  std::optional<Moment> least_allocated;
  std::uint64_t most_reserved_bytes = 0;
  model::EventIndex most_reserved_event = model::kBeforeFirst;

  void take(model::EventIndex event, const model::CourseLevels& levels) {
    const std::uint64_t now = levels.allocated_bytes.low;
    if (!most_allocated || now > most_allocated->levels.allocated_bytes.low) {
      most_allocated = Moment{event, levels};
    }
    if (!least_allocated || now < least_allocated->levels.allocated_bytes.low) {
      least_allocated = Moment{event, levels};
    }
    if (levels.reserved_bytes > most_reserved_bytes) {
      most_reserved_bytes = levels.reserved_bytes;
      most_reserved_event = event;
    }
  }

  /// As if what `other` saw had been seen here, too.
  void take(const Extremes& other) {
    if (!other.most_allocated) return;
    const auto keep = [](std::optional<Moment>& mine, const Moment& its, int direction) {
      if (!mine) {
        mine = its;
        return;
      }
      const std::uint64_t have = mine->levels.allocated_bytes.low;
      const std::uint64_t got = its.levels.allocated_bytes.low;
      const bool is_earlier = have == got && its.event < mine->event;
      if (is_earlier || (direction > 0 ? got > have : got < have)) mine = its;
    };
    keep(most_allocated, *other.most_allocated, 1);
    keep(least_allocated, *other.least_allocated, -1);
    if (other.most_reserved_bytes > most_reserved_bytes) {
      most_reserved_bytes = other.most_reserved_bytes;
      most_reserved_event = other.most_reserved_event;
    }
  }
};

}  // namespace fragscope::course
