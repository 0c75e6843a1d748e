// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/heap_state.hpp"

#include "analyzer/recording/byte_sums.hpp"
#include "trace/check.hpp"

#include <algorithm>
#include <map>

namespace fragscope::model {
namespace {

Bounds hole_bounds(const HeapBlock& hole) {
  return {hole.size_bytes - hole.slack_bytes, hole.size_bytes};
}
Bounds used_bounds(const HeapBlock& block) {
  return {block.size_bytes, block.size_bytes + block.slack_bytes};
}

void raise(Bounds& largest, Bounds hole) {
  largest.low = std::max(largest.low, hole.low);
  largest.high = std::max(largest.high, hole.high);
}

void add_block(const HeapSegment& segment,
               const HeapBlock& block,
               StateSummary& summary,
               HomeSummary& home) {
  switch (block.state) {
    case BlockState::kLive:
      summary.allocated_bytes = summary.allocated_bytes + used_bounds(block);
      if (summary.requested_bytes) *summary.requested_bytes += block.requested_bytes;
      if (summary.requested_active_bytes) *summary.requested_active_bytes += block.requested_bytes;
      break;
    case BlockState::kPending:
      summary.pending_bytes = summary.pending_bytes + used_bounds(block);
      home.pending_bytes += block.size_bytes;
      if (summary.requested_active_bytes) *summary.requested_active_bytes += block.requested_bytes;
      break;
    case BlockState::kFree:
      ++summary.holes;
      ++home.holes;
      home.free_bytes = home.free_bytes + hole_bounds(block);
      raise(home.largest_hole_bytes, hole_bounds(block));
      if (segment.block_count > 1 && !segment.home.expandable) {
        summary.inactive_split_bytes = summary.inactive_split_bytes + hole_bounds(block);
      }
      break;
  }
}

}  // namespace

Bounds operator+(Bounds left, Bounds right) {
  return {plus(left.low, right.low), plus(left.high, right.high)};
}
Bounds operator-(Bounds left, Bounds right) {
  const bool unknown = left.high == ~std::uint64_t{0};
  return {minus(left.low, right.high), unknown ? left.high : minus(left.high, right.low)};
}

HeapState end_state(const Recording& recording, std::int32_t device) {
  HeapState state;
  for (const Segment& segment : recording.segments) {
    if (segment.device != device) continue;
    state.segments.push_back(
        {segment.address,
         segment.size_bytes,
         {segment.pool, segment.size_class, segment.expandable, segment.stream},
         static_cast<std::uint32_t>(state.blocks.size()),
         segment.block_count,
         false});
    for (const Block& block : recording.blocks_of(segment)) {
      if (block.state == BlockState::kLive && !block.has_requested) {
        state.has_requested_sizes = false;
      }
      state.blocks.push_back(
          {block.address, block.size_bytes, block.requested_bytes, 0, block.stack, block.state});
    }
  }
  return state;
}

std::uint64_t releasable_bytes(const HeapState& state,
                               const HeapSegment& segment,
                               const policy::SizeRules& rules,
                               bool pending_is_free) {
  std::uint64_t bytes = 0;
  const std::uint64_t page = policy::page_size(segment.home.size_class, rules);
  for_each_free_run(state,
                    segment,
                    pending_is_free,
                    [&](std::uint64_t begin, std::uint64_t end, std::uint32_t slack) {
                      if (!segment.home.expandable) {
                        if (end - begin == segment.size_bytes) bytes += segment.size_bytes;
                        return;
                      }
                      // Pages are counted from the start of the mapped range, which is a page
                      // border.
                      const std::uint64_t first =
                          policy::round_up(begin + slack - segment.address, page);
                      const std::uint64_t last = (end - segment.address) / page * page;
                      if (last > first) bytes += last - first;
                    });
  return bytes;
}

StateSummary summarize(const HeapState& state, const policy::SizeRules& rules) {
  StateSummary summary;
  if (state.has_requested_sizes) {
    summary.requested_bytes = 0;
    summary.requested_active_bytes = 0;
  }
  std::map<Home, HomeSummary> homes;
  summary.segments = state.segments.size();
  summary.blocks = state.blocks.size();
  for (const HeapSegment& segment : state.segments) {
    summary.reserved_bytes += segment.size_bytes;
    HomeSummary& home = homes[segment.home];
    home.home = segment.home;
    for (const HeapBlock& block : state.blocks_of(segment)) {
      add_block(segment, block, summary, home);
    }
    if (segment.home.pool == kDefaultPool) {
      summary.gap.releasable_bytes += releasable_bytes(state, segment, rules, false);
    }
  }
  for (const auto& [key, home] : homes) {
    summary.free_bytes = summary.free_bytes + home.free_bytes;
    raise(summary.largest_hole_bytes, home.largest_hole_bytes);
    summary.homes.push_back(home);
  }
  summary.active_bytes = summary.allocated_bytes + summary.pending_bytes;

  // With bounds, the split takes the lower end of what is used, so that the parts sum up.
  summary.gap.pending_bytes = summary.pending_bytes.low;
  if (summary.requested_bytes) {
    summary.gap.rounding_bytes = minus(summary.allocated_bytes.low, *summary.requested_bytes);
  }
  summary.gap.stuck_bytes = minus(summary.free_bytes.high, summary.gap.releasable_bytes);
  return summary;
}

}  // namespace fragscope::model
