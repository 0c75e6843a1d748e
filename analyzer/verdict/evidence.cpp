// SPDX-License-Identifier: Apache-2.0
#include "analyzer/verdict/evidence.hpp"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <set>
#include <utility>

namespace fragscope::verdict {
namespace {

using model::BlockState;
using model::HeapBlock;
using model::HeapSegment;
using model::HeapState;

bool is_home(const HeapSegment& segment, const Question& question) {
  return segment.home.stream == question.stream && segment.home.pool == question.pool &&
         segment.home.size_class == question.size_class();
}

std::uint64_t used_bytes(const HeapBlock& block) {
  return block.state == BlockState::kFree ? 0 : block.size_bytes;
}

struct Window {
  const HeapSegment* segment = nullptr;
  std::size_t first = 0;  // blocks of the segment
  std::size_t last = 0;
  std::uint64_t bytes = 0;
  std::uint64_t used = kUnlimited;
};

// For each last block, the shortest run of blocks that ends there and is long enough; a longer one
// never has fewer live bytes.
void slide_window(const HeapState& state,
                  const HeapSegment& segment,
                  std::uint64_t size,
                  Window& best) {
  const auto blocks = state.blocks_of(segment);
  Window at{&segment, 0, 0, 0, 0};
  for (at.last = 0; at.last < blocks.size(); ++at.last) {
    at.bytes += blocks[at.last].size_bytes;
    at.used += used_bytes(blocks[at.last]);
    while (at.bytes - blocks[at.first].size_bytes >= size) {
      at.bytes -= blocks[at.first].size_bytes;
      at.used -= used_bytes(blocks[at.first]);
      ++at.first;
    }
    if (at.bytes < size) continue;
    if (std::pair{at.used, at.bytes} < std::pair{best.used, best.bytes}) best = at;
  }
}

void add_blocks(std::span<const HeapBlock> blocks, Pins& pins) {
  for (const HeapBlock& block : blocks) {
    if (block.state == BlockState::kFree) continue;
    pins.blocks.push_back(
        {block.address, block.size_bytes, block.stack, block.state == BlockState::kPending});
    pins.live_bytes += block.size_bytes;
  }
}

// How many of the bytes would find a hole: largest block first, into the smallest hole that takes
// it. `leaves` says which segments' or windows' holes do not count, since they are being cleared.
template <class Leaves>
std::uint64_t placeable(const HeapState& state,
                        const Question& question,
                        const Pins& pins,
                        Leaves leaves) {
  std::multiset<std::uint64_t> holes;
  for (const HeapSegment& segment : state.segments) {
    if (!is_home(segment, question)) continue;
    for (const HeapBlock& block : state.blocks_of(segment)) {
      if (block.state == BlockState::kFree && !leaves(segment, block)) {
        holes.insert(block.size_bytes - block.slack_bytes);
      }
    }
  }
  std::uint64_t placed = 0;
  for (const PinnedBlock& block : pins.blocks) {
    const auto hole = holes.lower_bound(block.size_bytes);
    if (hole == holes.end()) continue;
    const std::uint64_t rest = *hole - block.size_bytes;
    holes.erase(hole);
    if (rest > 0) holes.insert(rest);
    placed += block.size_bytes;
  }
  return placed;
}

void sort_blocks(Pins& pins) {
  std::ranges::sort(pins.blocks, [](const PinnedBlock& left, const PinnedBlock& right) {
    return std::pair{right.size_bytes, left.address} < std::pair{left.size_bytes, right.address};
  });
}

Pins window_pins(const HeapState& state, const Question& question, const Window& window) {
  const auto blocks =
      state.blocks_of(*window.segment).subspan(window.first, window.last - window.first + 1);
  Pins pins;
  pins.address = blocks.front().address;
  pins.window_bytes = window.bytes;
  add_blocks(blocks, pins);
  sort_blocks(pins);
  const std::uint64_t end = pins.address + pins.window_bytes;
  pins.placeable_bytes =
      placeable(state, question, pins, [&](const HeapSegment&, const HeapBlock& block) {
        return block.address >= pins.address && block.address < end;
      });
  return pins;
}

// Whole plain segments, those with the smallest live share first, until the driver could give need.
std::optional<Pins> segment_pins(const HeapState& state,
                                 const Question& question,
                                 std::uint64_t lacking) {
  struct Candidate {
    const HeapSegment* segment;
    std::uint64_t used;
  };
  std::vector<Candidate> candidates;
  for (const HeapSegment& segment : state.segments) {
    if (!is_home(segment, question) || segment.home.expandable) continue;
    std::uint64_t used = 0;
    for (const HeapBlock& block : state.blocks_of(segment))
      used += used_bytes(block);
    candidates.push_back({&segment, used});
  }
  std::ranges::stable_sort(candidates, {}, [](const Candidate& candidate) {
    return static_cast<double>(candidate.used) / static_cast<double>(candidate.segment->size_bytes);
  });
  Pins pins;
  pins.whole_segments = true;
  pins.segments = 0;
  std::set<const HeapSegment*> cleared;
  for (const Candidate& candidate : candidates) {
    if (pins.window_bytes >= lacking) break;
    if (pins.segments++ == 0) pins.address = candidate.segment->address;
    pins.window_bytes += candidate.segment->size_bytes;
    cleared.insert(candidate.segment);
    add_blocks(state.blocks_of(*candidate.segment), pins);
  }
  if (pins.window_bytes < lacking || pins.segments == 0) return std::nullopt;
  sort_blocks(pins);
  pins.placeable_bytes =
      placeable(state, question, pins, [&](const HeapSegment& segment, const HeapBlock&) {
        return cleared.contains(&segment);
      });
  return pins;
}

}  // namespace

std::optional<Pins> find_pins(const HeapState& state,
                              const Question& question,
                              const Supply& supply,
                              const DeviceFacts& facts) {
  Window best;
  for (const HeapSegment& segment : state.segments) {
    if (is_home(segment, question) && segment.size_bytes >= question.size_bytes) {
      slide_window(state, segment, question.size_bytes, best);
    }
  }
  if (best.segment != nullptr) {
    if (best.used == 0) return std::nullopt;
    return window_pins(state, question, best);
  }
  const std::uint64_t free = facts.free.bytes.low;
  const std::uint64_t need = supply.need_whole_bytes;
  return segment_pins(state, question, need > free ? need - free : 0);
}

std::vector<Holder> find_holders(const HeapState& state) {
  absl::flat_hash_map<model::StackId, Holder> by_stack;
  for (const HeapBlock& block : state.blocks) {
    if (block.state != BlockState::kLive) continue;
    Holder& holder = by_stack[block.stack];
    holder.stack = block.stack;
    holder.bytes += block.size_bytes;
    ++holder.blocks;
  }
  std::vector<Holder> holders;
  for (const auto& [stack, holder] : by_stack)
    holders.push_back(holder);
  std::ranges::sort(holders, [](const Holder& left, const Holder& right) {
    return std::pair{right.bytes, left.stack} < std::pair{left.bytes, right.stack};
  });
  return holders;
}

}  // namespace fragscope::verdict
