// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/heap_offer.hpp"

#include "analyzer/recording/byte_sums.hpp"

#include <algorithm>
#include <utility>

namespace fragscope::servability {

using model::CourseKind;
using model::Home;
using model::minus;

HeapOffer::HeapOffer(const policy::SizeRules& rules, std::vector<Home> followed)
    : rules_(&rules)
    , followed_(std::move(followed))
    , books_(rules)
    , runs_(books_)
    , waited_(rules) {}

bool HeapOffer::follows(const Home& home) const {
  return followed_.empty() || std::ranges::find(followed_, home) != followed_.end();
}

void HeapOffer::begin(const model::HeapState& state, const model::CourseLevels& levels) {
  books_.clear();
  pending_.clear();
  runs_.begin(state, false, [this](const Home& home) { return follows(home); });
  plain_.begin(state);
  waited_.begin(state);
  for (const model::HeapBlock& block : state.blocks) {
    if (block.state == model::BlockState::kPending) pending_.insert(block.address);
  }
  reserved_bytes_ = levels.reserved_bytes;
}

void HeapOffer::step(const model::CourseStep& step, const model::CourseLevels& levels) {
  reserved_bytes_ = levels.reserved_bytes;
  const Range block{step.address, step.address + step.size_bytes};
  switch (step.kind) {
    case CourseKind::kAlloc:
      return take(block);
    case CourseKind::kFree:
      return free(block);
    case CourseKind::kComplete:
      return complete(block);
    case CourseKind::kDevice:
      return change_device(step);
    case CourseKind::kFailure:
      return;
  }
}

void HeapOffer::take(Range block) {
  const Home* const plain = plain_.take(block);
  if (plain == nullptr || follows(*plain)) runs_.take(block);
  if (plain == nullptr) waited_.take(block);
}

void HeapOffer::free(Range block) {
  if (!pending_.insert(block.begin).second) return;
  if (plain_.give(block) == nullptr) waited_.give(block);
}

void HeapOffer::complete(Range block) {
  // Where the free was not told before, it happens now.
  if (pending_.erase(block.begin) == 0 && plain_.give(block) == nullptr) waited_.give(block);
  runs_.give(block);
}

void HeapOffer::change_device(const model::CourseStep& step) {
  const Range range{step.address, step.address + step.size_bytes};
  const Home& home = step.home;
  if (!step.comes) {
    runs_.remove_segment(range);
    plain_.remove(range);
    waited_.unmap(range);
    return;
  }
  if (follows(home)) runs_.add_segment(range, home);
  if (!home.expandable) return plain_.add(range, home);
  waited_.map(range, home);
}

std::uint64_t HeapOffer::releasable_bytes() const {
  return plain_.releasable_bytes() + waited_.books().releasable_bytes();
}

/// Expandable segments serve only while the option is on.
template <class Use>
void HeapOffer::for_each_home_of(const RunBooks& books, const Request& request, Use use) const {
  for (const bool expandable : {false, true}) {
    if (expandable && !rules_->expandable_segments) continue;
    const HomeRuns* const runs = books.find(request.home(expandable));
    if (runs != nullptr) use(*runs);
  }
}

bool HeapOffer::has_hole(const Request& request) const {
  bool has = false;
  for_each_home_of(books_, request, [&](const HomeRuns& runs) {
    const std::uint64_t found = runs.best_fit(request.size_bytes);
    // A longer one is forbidden where the shortest is.
    has |= found > 0 && policy::oversize_rules_admit(found, request.size_bytes, *rules_);
  });
  return has;
}

std::uint64_t HeapOffer::driver_bytes(const DriverRoom& room) const {
  const std::uint64_t releasable = releasable_bytes();
  const std::uint64_t give = room.free_with(reserved_bytes_) + releasable;
  if (!room.limit_bytes) return give;
  return std::min(give, minus(*room.limit_bytes, minus(reserved_bytes_, releasable)));
}

bool HeapOffer::driver_gives(const Request& request, const DriverRoom& room) const {
  const std::uint64_t releasable = releasable_bytes();
  const std::uint64_t asked = policy::device_allocation(request.size_bytes, *rules_);
  // The limit is checked against the device allocation, even for an expandable request.
  if (room.limit_bytes && minus(reserved_bytes_, releasable) + asked > *room.limit_bytes) {
    return false;
  }
  const std::uint64_t give = room.free_with(reserved_bytes_) + releasable;
  if (!rules_->expandable_segments) return asked <= give;
  // Most often it is clear without a look at the address space.
  const std::uint64_t page = policy::page_size(request.size_class(), *rules_);
  if (policy::round_up(request.size_bytes, page) <= give) return true;
  std::uint64_t free = 0;
  for_each_home_of(
      waited_.books(), request, [&free](const HomeRuns& runs) { free += runs.free_bytes(); });
  if (give + free < request.size_bytes) return false;
  return waited_.pages_to_map(request.size_bytes, request.home(true)) <= give;
}

Server HeapOffer::server_of(const Request& request, const DriverRoom& room) const {
  if (has_hole(request)) return Server::kHole;
  return driver_gives(request, room) ? Server::kDriver : Server::kNobody;
}

std::uint64_t HeapOffer::largest_run_bytes(const Request& request) const {
  std::uint64_t largest = 0;
  for_each_home_of(books_, request, [&largest](const HomeRuns& runs) {
    largest = std::max(largest, runs.largest_bytes());
  });
  return largest;
}

std::uint64_t HeapOffer::free_bytes(const Request& request) const {
  std::uint64_t bytes = 0;
  for_each_home_of(books_, request, [&bytes](const HomeRuns& runs) { bytes += runs.free_bytes(); });
  return bytes;
}

std::uint64_t HeapOffer::largest_served_bytes(const Request& request,
                                              const DriverRoom& room) const {
  const std::uint64_t give = driver_bytes(room);
  const bool is_small = request.size_class() == policy::SizeClass::kSmall;
  const std::uint64_t unit = rules_->expandable_segments
                                 ? policy::page_size(request.size_class(), *rules_)
                                 : policy::kSmallBuffer;
  std::uint64_t served = give / unit * unit;
  if (is_small) served = std::min<std::uint64_t>(served, policy::kSmallSize);
  const bool is_of_class = policy::size_class(served) == request.size_class() && served > 0;
  const bool is_given =
      rules_->expandable_segments || policy::device_allocation(served, *rules_) <= give;
  return std::max(largest_run_bytes(request), is_of_class && is_given ? served : 0);
}

}  // namespace fragscope::servability
