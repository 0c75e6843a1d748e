// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/segment_history.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace fragscope::model {
namespace {

bool changes_segments(Action action) {
  return action >= Action::kSegmentAlloc && action <= Action::kSegmentUnmap;
}

bool is_mapping(Action action) {
  return action == Action::kSegmentMap || action == Action::kSegmentUnmap;
}

bool is_valid_range(const Event& event) {
  return event.size_bytes > 0 && event.size_bytes <= ~std::uint64_t{0} - event.address;
}

}  // namespace

bool map_range(MappedRanges& ranges, std::uint64_t begin, std::uint64_t end) {
  auto after = ranges.lower_bound(begin);
  if (after != ranges.end() && after->first < end) return false;
  auto before = after;
  const bool has_before = before != ranges.begin();
  if (has_before) --before;
  if (has_before && before->second > begin) return false;
  if (after != ranges.end() && after->first == end) {
    end = after->second;
    ranges.erase(after);
  }
  if (has_before && before->second == begin) {
    before->second = end;
  } else {
    ranges.emplace(begin, end);
  }
  return true;
}

bool unmap_range(MappedRanges& ranges, std::uint64_t begin, std::uint64_t end) {
  auto holder = ranges.upper_bound(begin);
  if (holder == ranges.begin()) return false;
  --holder;
  const std::uint64_t holder_end = holder->second;
  if (holder_end < end) return false;
  if (holder->first == begin) {
    ranges.erase(holder);
  } else {
    holder->second = begin;
  }
  if (end < holder_end) ranges.emplace(end, holder_end);
  return true;
}

SegmentHistory::SegmentHistory(std::span<const Segment> segments,
                               std::span<const Event> events,
                               const policy::SizeRules& rules) {
  const auto event_count = static_cast<EventIndex>(events.size());
  for (const Segment& segment : segments) {
    const Home home{segment.pool, segment.size_class, segment.expandable, segment.stream};
    if (segment.expandable) {
      static_cast<void>(
          map_range(mapped_at_start_, segment.address, segment.address + segment.size_bytes));
      continue;
    }
    present_.emplace(segment.address, static_cast<std::uint32_t>(plain_.size()));
    plain_.push_back({segment.address, segment.size_bytes, home, kBeforeFirst, false});
  }
  for (EventIndex index = 0; index < event_count; ++index) {
    if (changes_segments(events[static_cast<std::size_t>(index)].action)) changes_.push_back(index);
  }
  plain_of_change_.assign(changes_.size(), -1);
  find_areas(segments, events);
  undo(events, rules);
  find_owners(events);
  name_classes(events, rules);
  present_.clear();
}

// Every range that was mapped at some time, merged where they touch, with the home of whatever
// segment of it is left at the end.
void SegmentHistory::find_areas(std::span<const Segment> segments, std::span<const Event> events) {
  std::vector<Area> ranges;
  for (const Segment& segment : segments) {
    if (!segment.expandable) continue;
    ranges.push_back({segment.address,
                      segment.address + segment.size_bytes,
                      {segment.pool, segment.size_class, true, segment.stream},
                      false,
                      {}});
  }
  for (const EventIndex index : changes_) {
    const Event& event = events[static_cast<std::size_t>(index)];
    if (!is_mapping(event.action) || !is_valid_range(event)) continue;
    ranges.push_back({event.address,
                      event.address + event.size_bytes,
                      {event.pool, SizeClass::kLarge, true, event.stream},
                      true,
                      {}});
  }
  std::ranges::stable_sort(ranges, {}, &Area::begin);
  for (const Area& range : ranges) {
    if (areas_.empty() || areas_.back().end < range.begin) {
      areas_.push_back(range);
      continue;
    }
    Area& area = areas_.back();
    // Two ranges that touch but are known to belong apart stay apart.
    const bool both_known = !area.class_assumed && !range.class_assumed;
    if (area.end == range.begin && both_known && area.home != range.home) {
      areas_.push_back(range);
      continue;
    }
    area.end = std::max(area.end, range.end);
    if (area.class_assumed && !range.class_assumed) {
      area.home = range.home;
      area.class_assumed = false;
    } else if (area.home.pool == kUnknownPool) {
      area.home.pool = range.home.pool;
    }
  }
}

void SegmentHistory::undo(std::span<const Event> events, const policy::SizeRules& rules) {
  for (std::size_t i = changes_.size(); i-- > 0;) {
    const Event& event = events[static_cast<std::size_t>(changes_[i])];
    if (!is_valid_range(event)) {
      ++unmatched_count_;
      continue;
    }
    if (!is_mapping(event.action)) {
      plain_of_change_[i] = undo_plain(event, changes_[i], rules);
      if (plain_of_change_[i] < 0) ++unmatched_count_;
      continue;
    }
    const std::uint64_t end = event.address + event.size_bytes;
    const bool undone = event.action == Action::kSegmentMap
                            ? unmap_range(mapped_at_start_, event.address, end)
                            : map_range(mapped_at_start_, event.address, end);
    if (!undone) ++unmatched_count_;
  }
}

std::int32_t SegmentHistory::undo_plain(const Event& event,
                                        EventIndex index,
                                        const policy::SizeRules& rules) {
  const auto after = present_.lower_bound(event.address);
  if (event.action == Action::kSegmentAlloc) {
    if (after == present_.end() || after->first != event.address ||
        plain_[after->second].size_bytes != event.size_bytes) {
      return -1;
    }
    const std::uint32_t made = after->second;
    plain_[made].alloc_event = index;
    present_.erase(after);
    return static_cast<std::int32_t>(made);
  }
  if (after != present_.end() && after->first < event.address + event.size_bytes) return -1;
  if (after != present_.begin()) {
    const PlainSegment& before = plain_[std::prev(after)->second];
    if (before.address + before.size_bytes > event.address) return -1;
  }
  // A segment of 2 MiB is one of class small: large ones start at the large segment size.
  const bool is_small =
      event.size_bytes < std::min(rules.large_segment_size, policy::kMinLargeAlloc);
  const Home home{
      event.pool, is_small ? SizeClass::kSmall : SizeClass::kLarge, false, event.stream};
  present_.emplace(event.address, static_cast<std::uint32_t>(plain_.size()));
  plain_.push_back(
      {event.address, event.size_bytes, home, kBeforeFirst, event.pool == kUnknownPool});
  return static_cast<std::int32_t>(plain_.size() - 1);
}

// An area that was unmapped whole and is mapped again has a new owner from there on. What is left
// at the end names the last one; the others are known by their own events.
void SegmentHistory::find_owners(std::span<const Event> events) {
  std::vector<std::uint64_t> mapped(areas_.size(), 0);
  std::vector<bool> seen(areas_.size(), false);
  const auto index_at = [this](std::uint64_t address) {
    const Area* area = area_at(address);
    return area == nullptr ? areas_.size() : static_cast<std::size_t>(area - areas_.data());
  };
  for (const auto& [begin, end] : mapped_at_start_) {
    const std::size_t at = index_at(begin);
    if (at == areas_.size()) continue;
    mapped[at] += end - begin;
    if (areas_[at].owners.empty())
      areas_[at].owners.push_back({kBeforeFirst, areas_[at].home, true});
  }
  for (const EventIndex change : changes_) {
    const Event& event = events[static_cast<std::size_t>(change)];
    const std::size_t at = is_mapping(event.action) ? index_at(event.address) : areas_.size();
    if (at == areas_.size()) continue;
    std::vector<AreaOwner>& owners = areas_[at].owners;
    const AreaOwner here{change, {event.pool, SizeClass::kLarge, true, event.stream}, true};
    const bool is_map = event.action == Action::kSegmentMap;
    if (owners.empty() || (is_map && mapped[at] == 0)) {
      owners.push_back(here);
    } else if (!seen[at]) {
      owners.front().home = here.home;  // from before the first event: its own first event names it
    }
    seen[at] = true;
    mapped[at] = is_map ? mapped[at] + event.size_bytes
                        : mapped[at] - std::min(mapped[at], event.size_bytes);
  }
  for (Area& area : areas_) {
    if (area.owners.empty()) area.owners.push_back({kBeforeFirst, area.home, true});
    if (area.class_assumed) continue;
    area.owners.back().home = area.home;
    area.owners.back().class_assumed = false;
  }
}

// The class of one that is gone is that of the first block handed out in its time; without one, its
// size must decide: whole large pages are taken for class large.
void SegmentHistory::name_classes(std::span<const Event> events, const policy::SizeRules& rules) {
  std::size_t open = 0;
  for (Area& area : areas_) {
    const bool whole_large_pages = (area.end - area.begin) % rules.large_segment_size == 0;
    for (AreaOwner& owner : area.owners) {
      if (!owner.class_assumed) continue;
      ++open;
      owner.home.size_class = whole_large_pages ? SizeClass::kLarge : SizeClass::kSmall;
    }
  }
  for (std::size_t index = 0; index < events.size() && open > 0; ++index) {
    const Event& event = events[index];
    if (event.action != Action::kAlloc) continue;
    auto* area = const_cast<Area*>(area_at(event.address));
    if (area == nullptr) continue;
    auto& owner = const_cast<AreaOwner&>(area->owner_before(static_cast<EventIndex>(index)));
    if (!owner.class_assumed) continue;
    owner.home.size_class = policy::size_class(policy::round_size(event.size_bytes, rules));
    if (owner.home.pool == kUnknownPool) owner.home.pool = event.pool;
    owner.class_assumed = false;
    --open;
  }
}

const Area* SegmentHistory::area_at(std::uint64_t address) const {
  auto after = std::ranges::upper_bound(areas_, address, {}, &Area::begin);
  if (after == areas_.begin()) return nullptr;
  --after;
  return address < after->end ? &*after : nullptr;
}

}  // namespace fragscope::model
