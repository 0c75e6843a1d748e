// SPDX-License-Identifier: Apache-2.0
// When a request became impossible. Before each event it is asked whether the request would have
// been served then (rungs 1 to 3 of the ladder); the answer turns from yes to no and back, and the
// last turn to no is the moment, with the event that did it. Used by `analyze` and `timeline`.
#pragma once

#include "allocator/policy/size_rules.hpp"
#include "analyzer/model/history.hpp"
#include "analyzer/servability/request.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fragscope::servability {

class HeapOffer;

/// An event behind which the answer is another one.
struct Turn {
  Server before = Server::kNobody;
  Server after = Server::kNobody;
  /// What did it. A segment that a request needed and the request itself are one: the request.
  model::CourseStep cause;
  std::uint64_t run_before_bytes = 0;     ///< The longest run at home before it.
  std::uint64_t driver_before_bytes = 0;  ///< What the driver could give before it.

  [[nodiscard]] bool is_to_no() const { return after == Server::kNobody; }
};

/// A request to watch, and until when.
struct Watch {
  Request request;
  DriverRoom room;
  model::EventIndex until = 0;  ///< Events before this one count.
};

struct Moment {
  /// Behind this event the heap is known without a break up to the end of the watch; none: never.
  std::optional<model::EventIndex> known_from;
  Server first = Server::kNobody;  ///< The answer there.
  Server last = Server::kNobody;   ///< The answer at the end of the watch.
  std::uint64_t turn_count = 0;    ///< Between yes and no, and back.
  std::optional<Turn> to_no;       ///< The last turn to no, if it is the last turn of all.
};

/// One walk over the history for all of them.
[[nodiscard]] std::vector<Moment> find_moments(const model::History& history,
                                               std::span<const Watch> watches,
                                               const policy::SizeRules& rules);

/// Follows the answer to one request. A segment that just came is not asked about: the request that
/// it came for follows, and takes its part.
class AnswerWatch {
 public:
  explicit AnswerWatch(const Watch& watch)
      : watch_(watch) {}

  void begin(model::EventIndex event, const HeapOffer& offer);
  void lose();
  /// `offer` stands behind the step. Gives the turn, if it is one between yes and no.
  std::optional<Turn> step(const model::CourseStep& step, const HeapOffer& offer);

  [[nodiscard]] const Watch& watch() const { return watch_; }
  [[nodiscard]] std::optional<model::EventIndex> known_from() const { return known_from_; }
  [[nodiscard]] Server first() const { return first_; }
  [[nodiscard]] Server now() const { return now_; }

 private:
  void note(const HeapOffer& offer);

  Watch watch_;
  std::optional<model::EventIndex> known_from_;
  Server first_ = Server::kNobody;
  Server now_ = Server::kNobody;
  std::uint64_t run_bytes_ = 0;
  std::uint64_t driver_bytes_ = 0;
  std::optional<model::CourseStep> came_;  // a segment that nobody was given a part of yet
};

}  // namespace fragscope::servability
