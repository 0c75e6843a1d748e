// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/runs/waited_runs.hpp"

#include <algorithm>
#include <optional>

namespace fragscope::servability {

using model::Home;

void WaitedRuns::begin(const model::HeapState& state) {
  books_.clear();
  places_.clear();
  for (const model::ExpandableStart& each : state.expandable_starts)
    places_[each.home].begin_at(each.address);
  for (const model::HeapSegment& segment : state.segments) {
    if (!segment.home.expandable) continue;
    Places& places = places_[segment.home];
    places.begin_at(segment.address);
    places.use({segment.address, segment.address + segment.size_bytes});
  }
  runs_.begin(state, true, [](const Home& home) { return home.expandable; });
}

void WaitedRuns::map(Range pages, const Home& home) {
  places_[home].begin_at(pages.begin);
  runs_.add_segment(pages, home);
}

void WaitedRuns::unmap(Range pages) {
  const std::optional<Home> home = runs_.remove_segment(pages);
  if (home) places_[*home].leave(pages);
}

void WaitedRuns::run_comes(const SegmentRange& segment, Range run) {
  books_.run_comes(segment, run);
  places_[segment.home].leave(run);
}

void WaitedRuns::run_goes(const SegmentRange& segment, Range run) {
  books_.run_goes(segment, run);
  places_[segment.home].use(run);
}

/// As much of the place as the request needs to know.
verdict::AddressLayout WaitedRuns::layout_of(const Range& place,
                                             std::uint64_t bytes,
                                             const Home& home) const {
  verdict::AddressLayout layout(policy::page_size(home.size_class, *rules_));
  std::uint64_t at = place.begin;
  runs_.visit_runs(place, [&](const Range& run) {
    const bool has_unmapped = run.begin > at || layout.has_unmapped();
    if (has_unmapped && run.begin - place.begin >= bytes) return false;
    const SegmentRange* const segment = runs_.segment_of(run.begin);
    if (segment == nullptr || segment->home != home) return true;  // another's address space
    layout.add_unmapped(run.begin - at);
    at = run.end;
    const std::uint64_t first_page = segment->range.begin;
    if (home.pool == model::kDefaultPool) {
      layout.add_released(run.begin - first_page, run.end - first_page);
    } else {
      layout.add_free(run.begin - first_page, run.end - first_page);
    }
    return true;
  });
  layout.add_unmapped(std::min(place.end - at, verdict::kEndlessSpace));
  return layout;
}

std::uint64_t WaitedRuns::pages_to_map(std::uint64_t bytes, const Home& home) const {
  const auto found = places_.find(home);
  if (found == places_.end()) {
    return policy::round_up(bytes, policy::page_size(home.size_class, *rules_));
  }
  const Places& places = found->second;
  auto place = places.first_of(bytes, 0);
  while (place) {
    const verdict::AddressLayout layout = layout_of(*place, bytes, home);
    // Parts of pages alone do not grow.
    if (layout.has_unmapped()) return layout.pages_to_map(bytes);
    place = places.first_of(bytes, place->end);
  }
  return policy::round_up(bytes, policy::page_size(home.size_class, *rules_));
}

}  // namespace fragscope::servability
