// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/runs/plain_segments.hpp"

#include <algorithm>
#include <iterator>

namespace fragscope::servability {

std::uint64_t PlainSegments::releasable_of(const Segment& segment) {
  const bool is_releasable = segment.used_bytes == 0 && segment.at.home.pool == model::kDefaultPool;
  return is_releasable ? segment.at.range.size_bytes() : 0;
}

void PlainSegments::begin(const model::HeapState& state) {
  segments_.clear();
  last_ = nullptr;
  releasable_bytes_ = 0;
  for (const model::HeapSegment& segment : state.segments) {
    if (segment.home.expandable) continue;
    const Range range{segment.address, segment.address + segment.size_bytes};
    add(range, segment.home);
    for (const model::HeapBlock& block : state.blocks_of(segment)) {
      if (block.state != model::BlockState::kLive) continue;
      take({block.address, block.address + block.size_bytes});
    }
  }
}

PlainSegments::Segment* PlainSegments::find(std::uint64_t address) {
  if (last_ != nullptr && last_->at.range.contains(address)) return last_;
  const auto behind = segments_.upper_bound(address);
  if (behind == segments_.begin()) return nullptr;
  Segment& found = std::prev(behind)->second;
  if (!found.at.range.contains(address)) return nullptr;
  last_ = &found;
  return last_;
}

void PlainSegments::add(Range range, const model::Home& home) {
  if (range.begin >= range.end) return;
  const auto behind = segments_.lower_bound(range.begin);
  const bool overlaps_behind = behind != segments_.end() && behind->first < range.end;
  if (overlaps_behind || find(range.begin) != nullptr) return;
  const Segment& added = segments_[range.begin] = {{range, home}, 0};
  last_ = nullptr;
  releasable_bytes_ += releasable_of(added);
}

void PlainSegments::remove(Range range) {
  const auto found = segments_.find(range.begin);
  if (found == segments_.end() || found->second.at.range.end != range.end) return;
  releasable_bytes_ -= releasable_of(found->second);
  segments_.erase(found);
  last_ = nullptr;
}

const model::Home* PlainSegments::take(Range block) {
  return change(block, true);
}

const model::Home* PlainSegments::give(Range block) {
  return change(block, false);
}

const model::Home* PlainSegments::change(Range block, bool is_taken) {
  Segment* const segment = find(block.begin);
  if (segment == nullptr) return nullptr;
  releasable_bytes_ -= releasable_of(*segment);
  std::uint64_t& used = segment->used_bytes;
  used = is_taken ? used + block.size_bytes() : used - std::min(used, block.size_bytes());
  releasable_bytes_ += releasable_of(*segment);
  return &segment->at.home;
}

}  // namespace fragscope::servability
