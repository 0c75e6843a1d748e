// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/runs/free_runs.hpp"

#include <algorithm>
#include <iterator>

namespace fragscope::servability {

void FreeRuns::begin(const model::HeapState& state,
                     bool pending_is_free,
                     const FollowSegment& is_followed) {
  segments_.clear();
  runs_.clear();
  last_ = nullptr;
  for (const model::HeapSegment& segment : state.segments) {
    if (!is_followed(segment.home)) continue;
    const Range range{segment.address, segment.address + segment.size_bytes};
    if (!is_clear(range)) continue;
    const SegmentRange& held = segments_[range.begin] = {range, segment.home};
    model::for_each_free_run(state,
                             segment,
                             pending_is_free,
                             [&](std::uint64_t begin, std::uint64_t end, std::uint32_t /*slack*/) {
                               add_run(held, {begin, end});
                             });
  }
}

const SegmentRange* FreeRuns::segment_of(std::uint64_t address) const {
  const auto behind = segments_.upper_bound(address);
  if (behind == segments_.begin()) return nullptr;
  const SegmentRange& found = std::prev(behind)->second;
  return found.range.contains(address) ? &found : nullptr;
}

FreeRuns::Segments::iterator FreeRuns::segment_at(std::uint64_t address) {
  const auto behind = segments_.upper_bound(address);
  if (behind == segments_.begin()) return segments_.end();
  const auto found = std::prev(behind);
  return address < found->second.range.end ? found : segments_.end();
}

const SegmentRange* FreeRuns::find_segment(std::uint64_t address) {
  if (last_ == nullptr || !last_->range.contains(address)) {
    const auto found = segment_at(address);
    last_ = found == segments_.end() ? nullptr : &found->second;
  }
  return last_;
}

bool FreeRuns::is_clear(Range range) const {
  if (range.begin >= range.end) return false;
  const auto behind = segments_.lower_bound(range.begin);
  const bool overlaps_behind = behind != segments_.end() && behind->first < range.end;
  return !overlaps_behind && segment_of(range.begin) == nullptr;
}

void FreeRuns::add_run(const SegmentRange& segment, Range run) {
  runs_[run.begin] = run.end;
  listener_->run_comes(segment, run);
}

void FreeRuns::add_segment(Range range, const model::Home& home) {
  if (!is_clear(range)) return;
  last_ = nullptr;
  const auto behind = segments_.lower_bound(range.begin);

  SegmentRange grown{range, home};
  const auto is_same = [&home](const SegmentRange& other) {
    return home.expandable && other.home == home;
  };
  if (behind != segments_.end() && behind->first == range.end && is_same(behind->second)) {
    grown.range.end = behind->second.range.end;
    segments_.erase(behind);
  }
  const auto front = segments_.lower_bound(range.begin);
  if (front != segments_.begin()) {
    const auto before = std::prev(front);
    if (before->second.range.end == range.begin && is_same(before->second)) {
      grown.range.begin = before->first;
    }
  }
  SegmentRange& held = segments_[grown.range.begin];
  held = grown;
  give_within(held, range);
}

std::optional<model::Home> FreeRuns::remove_segment(Range range) {
  const auto found = segment_at(range.begin);
  const bool is_there = found != segments_.end() && range.end <= found->second.range.end;
  if (!is_there || range.begin >= range.end) return std::nullopt;
  take(range);
  const SegmentRange whole = found->second;
  last_ = nullptr;
  segments_.erase(found);
  if (whole.range.begin < range.begin) {
    segments_[whole.range.begin] = {{whole.range.begin, range.begin}, whole.home};
  }
  if (range.end < whole.range.end) {
    segments_[range.end] = {{range.end, whole.range.end}, whole.home};
  }
  return whole.home;
}

void FreeRuns::take(Range range) {
  auto at = runs_.upper_bound(range.begin);
  if (at != runs_.begin() && std::prev(at)->second > range.begin) --at;
  while (at != runs_.end() && at->first < range.end) {
    const Range run{at->first, at->second};
    const SegmentRange& segment = *find_segment(run.begin);
    listener_->run_goes(segment, run);
    runs_.erase(at);
    if (run.begin < range.begin) add_run(segment, {run.begin, range.begin});
    if (range.end < run.end) add_run(segment, {range.end, run.end});
    at = runs_.lower_bound(run.end);
  }
}

void FreeRuns::give(Range range) {
  while (range.begin < range.end) {
    const SegmentRange* const found = find_segment(range.begin);
    if (found == nullptr) {
      const auto next = segments_.upper_bound(range.begin);
      if (next == segments_.end()) return;
      range.begin = next->first;
      continue;
    }
    const std::uint64_t end = std::min(range.end, found->range.end);
    give_within(*found, {range.begin, end});
    range.begin = end;
  }
}

/// `range` lies inside the segment. Every run that it touches becomes part of it.
void FreeRuns::give_within(const SegmentRange& segment, Range range) {
  auto at = runs_.upper_bound(range.begin);
  if (at != runs_.begin()) {
    const auto before = std::prev(at);
    if (before->second >= range.begin && before->first >= segment.range.begin) at = before;
  }
  while (at != runs_.end() && at->first <= range.end && at->second <= segment.range.end) {
    const Range run{at->first, at->second};
    listener_->run_goes(segment, run);
    range = {std::min(range.begin, run.begin), std::max(range.end, run.end)};
    at = runs_.erase(at);
  }
  add_run(segment, range);
}

}  // namespace fragscope::servability
