// SPDX-License-Identifier: Apache-2.0
// What one device's heap offers to requests, followed event by event: the free runs of each home,
// and what could go back to the driver. `find_supply` says the same of a single state in a pass
// over its blocks; this costs a few look-ups an event. Not thread-safe.
//
// Where sizes of blocks are bounds, blocks count with the lower end, so that a run may be shorter
// than it seems: "no" is sure then, "yes" is not.
#pragma once

#include "allocator/policy/size_rules.hpp"
#include "analyzer/model/course/course.hpp"
#include "analyzer/servability/request.hpp"
#include "analyzer/servability/runs/free_runs.hpp"
#include "analyzer/servability/runs/plain_segments.hpp"
#include "analyzer/servability/runs/run_books.hpp"
#include "analyzer/servability/runs/waited_runs.hpp"

#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace fragscope::servability {

class HeapOffer {
 public:
  /// `rules` must outlive this. Runs are kept of these homes alone, which are those of the requests
  /// that will be asked about; of all homes if none are named.
  explicit HeapOffer(const policy::SizeRules& rules, std::vector<model::Home> followed = {});
  HeapOffer(const HeapOffer&) = delete;
  HeapOffer& operator=(const HeapOffer&) = delete;
  ~HeapOffer() = default;

  void begin(const model::HeapState& state, const model::CourseLevels& levels);
  void step(const model::CourseStep& step, const model::CourseLevels& levels);

  [[nodiscard]] Server server_of(const Request& request, const DriverRoom& room) const;
  /// The runs as they are, pending blocks counted as used.
  [[nodiscard]] RunBooks& runs() { return books_; }
  /// The longest run at the request's home.
  [[nodiscard]] std::uint64_t largest_run_bytes(const Request& request) const;
  /// All free bytes there.
  [[nodiscard]] std::uint64_t free_bytes(const Request& request) const;
  /// What the driver would have free once the cache went back to it, as far as the limit lets the
  /// allocator ask for it.
  [[nodiscard]] std::uint64_t driver_bytes(const DriverRoom& room) const;
  /// The largest request of this class, pool and stream that would have been served, oversize rules
  /// aside. In expandable segments a larger one may be, with pages mapped beside free space.
  [[nodiscard]] std::uint64_t largest_served_bytes(const Request& request,
                                                   const DriverRoom& room) const;

 private:
  template <class Use>
  void for_each_home_of(const RunBooks& books, const Request& request, Use use) const;
  [[nodiscard]] bool has_hole(const Request& request) const;
  [[nodiscard]] bool driver_gives(const Request& request, const DriverRoom& room) const;
  [[nodiscard]] std::uint64_t releasable_bytes() const;
  [[nodiscard]] bool follows(const model::Home& home) const;
  void take(Range block);
  void free(Range block);
  void complete(Range block);
  void change_device(const model::CourseStep& step);

  const policy::SizeRules* rules_;
  std::vector<model::Home> followed_;
  RunBooks books_;
  FreeRuns runs_;  // of the followed homes; pending blocks count as used
  // What would be free once pending frees were waited for: how much of each plain segment, and
  // which runs of expandable ones, whose pages go back one by one.
  absl::flat_hash_set<std::uint64_t> pending_;  // blocks, by address
  PlainSegments plain_;
  WaitedRuns waited_;
  std::uint64_t reserved_bytes_ = 0;
};

}  // namespace fragscope::servability
