// SPDX-License-Identifier: Apache-2.0
#include "analyzer/verdict/evidence.hpp"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace fragscope::verdict {
namespace {

using model::BlockState;
using model::HeapBlock;
using model::HeapSegment;
using model::HeapState;

/// Whether the segment's holes could serve the request.
bool is_usable(const HeapSegment& segment, const Question& question, const Supply& supply) {
  return (supply.expandable_on || !segment.home.expandable) &&
         segment.home.stream == question.stream && segment.home.pool == question.pool &&
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
    ++pins.block_count;
  }
}

// How many of the bytes would find a hole: largest block first, into the smallest hole that takes
// it. `leaves` says which segments' or windows' holes do not count, since they are being cleared.
template <class Leaves>
std::uint64_t placeable(const HeapState& state,
                        const Question& question,
                        const Supply& supply,
                        const Pins& pins,
                        Leaves leaves) {
  std::multiset<std::uint64_t> holes;
  for (const HeapSegment& segment : state.segments) {
    if (!is_usable(segment, question, supply)) continue;
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

Pins window_pins(const HeapState& state,
                 const Question& question,
                 const Supply& supply,
                 const Window& window) {
  const auto blocks =
      state.blocks_of(*window.segment).subspan(window.first, window.last - window.first + 1);
  Pins pins;
  pins.address = blocks.front().address;
  pins.window_bytes = window.bytes;
  add_blocks(blocks, pins);
  sort_blocks(pins);
  const std::uint64_t end = pins.address + pins.window_bytes;
  pins.placeable_bytes =
      placeable(state, question, supply, pins, [&](const HeapSegment&, const HeapBlock& block) {
        return block.address >= pins.address && block.address < end;
      });
  return pins;
}

struct Candidate {
  const HeapSegment* segment = nullptr;
  std::uint64_t used = 0;
};

// Plain segments whose return gives `lacking` bytes, with few live bytes: those with the smallest
// live share first, less what the later ones made superfluous, or the cheapest single one. (The
// cheapest set of all is a knapsack problem.) Empty if all together are not enough.
std::vector<Candidate> cheapest_segments(std::vector<Candidate> candidates, std::uint64_t lacking) {
  std::ranges::stable_sort(candidates, {}, [](const Candidate& candidate) {
    return static_cast<double>(candidate.used) / static_cast<double>(candidate.segment->size_bytes);
  });
  std::vector<Candidate> chosen;
  std::uint64_t bytes = 0;
  std::uint64_t used = 0;
  for (const Candidate& candidate : candidates) {
    if (bytes >= lacking) break;
    chosen.push_back(candidate);
    bytes += candidate.segment->size_bytes;
    used += candidate.used;
  }
  if (bytes < lacking) return {};
  std::ranges::stable_sort(chosen, std::greater<>{}, &Candidate::used);
  std::erase_if(chosen, [&](const Candidate& candidate) {
    if (bytes - candidate.segment->size_bytes < lacking) return false;
    bytes -= candidate.segment->size_bytes;
    used -= candidate.used;
    return true;
  });
  for (const Candidate& candidate : candidates) {
    if (candidate.segment->size_bytes < lacking || candidate.used >= used) continue;
    used = candidate.used;
    chosen = {candidate};
  }
  return chosen;
}

std::optional<Pins> segment_pins(const HeapState& state,
                                 const Question& question,
                                 const Supply& supply,
                                 std::uint64_t lacking) {
  std::vector<Candidate> candidates;
  for (const HeapSegment& segment : state.segments) {
    if (!is_usable(segment, question, supply) || segment.home.expandable) continue;
    std::uint64_t used = 0;
    for (const HeapBlock& block : state.blocks_of(segment))
      used += used_bytes(block);
    candidates.push_back({&segment, used});
  }
  const std::vector<Candidate> chosen = cheapest_segments(std::move(candidates), lacking);
  if (chosen.empty()) return std::nullopt;
  Pins pins;
  pins.whole_segments = true;
  pins.segments = chosen.size();
  pins.address = kUnlimited;
  std::set<const HeapSegment*> cleared;
  for (const Candidate& candidate : chosen) {
    pins.address = std::min(pins.address, candidate.segment->address);
    pins.window_bytes += candidate.segment->size_bytes;
    cleared.insert(candidate.segment);
    add_blocks(state.blocks_of(*candidate.segment), pins);
  }
  sort_blocks(pins);
  pins.placeable_bytes =
      placeable(state, question, supply, pins, [&](const HeapSegment& segment, const HeapBlock&) {
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
    if (is_usable(segment, question, supply) && segment.size_bytes >= question.size_bytes) {
      slide_window(state, segment, question.size_bytes, best);
    }
  }
  if (best.segment != nullptr && best.used == 0) return std::nullopt;
  const std::uint64_t free = facts.free.bytes.low;
  const std::uint64_t need = supply.need_whole_bytes;
  std::optional<Pins> segments =
      segment_pins(state, question, supply, need > free ? need - free : 0);
  if (best.segment == nullptr) return segments;
  Pins window = window_pins(state, question, supply, best);
  return segments && segments->live_bytes < window.live_bytes ? std::move(segments)
                                                              : std::optional(std::move(window));
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
