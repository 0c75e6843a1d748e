// SPDX-License-Identifier: Apache-2.0
// The largest request that would have been served, over a whole recording: a curve for the holes of
// each home, and for one request what its home and the driver together could have given, with the
// events where the answer for its size turned. Result of `find_timeline`; plain data.
#pragma once

#include "allocator/policy/size_rules.hpp"
#include "analyzer/model/history.hpp"
#include "analyzer/servability/moment.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace fragscope::servability {

/// The least and the most of a quantity among the moments of one column; none where the heap is not
/// known at any of them.
struct Column {
  std::uint64_t least_bytes = 0;
  std::uint64_t most_bytes = 0;
  friend bool operator==(const Column&, const Column&) = default;
};
using Curve = std::vector<std::optional<Column>>;

/// The longest free run of a home.
struct HomeCurve {
  model::Home home;
  Curve largest_run;
  std::uint64_t least_bytes = 0;
  std::uint64_t most_bytes = 0;
};

/// What is asked of one request.
struct AskedCurves {
  Watch watch;
  Curve largest_served;  ///< From a hole, or from the driver once the cache went back.
  Curve free_at_home;    ///< In whatever pieces.
  /// Behind this event the heap is first known; the answer there, and the one at the end.
  model::EventIndex known_from = model::kBeforeFirst;
  Server first = Server::kNobody;
  Server last = Server::kNobody;
  /// The first and the last ones; `turn_count` says how many there are.
  std::vector<Turn> turns;
  std::uint64_t turn_count = 0;
};

/// So many turns are kept from each end.
inline constexpr std::size_t kKeptTurns = 20;

struct Timeline {
  model::EventIndex first_event = 0;
  model::EventIndex end_event = 0;
  std::size_t column_count = 0;
  /// The last event behind which each column asks about the heap; none where it is not known. An
  /// earlier one than the column's last where a segment came for a request that follows.
  std::vector<std::optional<model::EventIndex>> asked_behind;
  std::vector<HomeCurve> homes;  ///< In order; those that ever had a free run.
  std::optional<AskedCurves> asked;
  bool was_lost = false;  ///< There are moments at which the heap is not known.

  /// The first event of a column.
  [[nodiscard]] model::EventIndex begin_of(std::size_t column) const;
};

/// One walk over the history, in at most `column_count` columns of as many events each.
[[nodiscard]] Timeline find_timeline(const model::History& history,
                                     const std::optional<Watch>& asked,
                                     const policy::SizeRules& rules,
                                     std::size_t column_count);

}  // namespace fragscope::servability
