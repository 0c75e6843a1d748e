// SPDX-License-Identifier: Apache-2.0
#include "tests/model/toy_allocator.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace fragscope::model {
namespace {

using policy::kKiB;
using policy::kMiB;

/// Where the address range of an expandable segment starts; one for each class and stream.
std::uint64_t base_of(SizeClass size_class, std::int64_t stream) {
  const std::uint64_t number =
      static_cast<std::uint64_t>(stream) * 2 + (size_class == SizeClass::kLarge ? 1 : 0);
  return (std::uint64_t{2} << 40) + (number << 38);
}

}  // namespace

std::uint64_t ToyAllocator::random_request() {
  switch (below(10)) {
    case 0:
    case 1:
    case 2:
      return 1 + below(kMiB);  // small
    case 3:
    case 4:
    case 5:
      return kMiB + 1 + below(9 * kMiB);  // from a segment of 20 MiB
    case 6:
      return 18 * kMiB + below(3 * kMiB);  // leaves around 1 MiB of one
    case 7:
      return 512 * (1 + below(4096));  // whole steps
    default:
      return 10 * kMiB + below(80 * kMiB);
  }
}

void ToyAllocator::step() {
  const std::uint64_t choice = below(100);
  if (choice < 50) {
    hand_out(random_request(), static_cast<std::int64_t>(below(2)));
  } else if (choice < 80) {
    free_one(true);
  } else if (choice < 88) {
    free_one(false);
  } else if (choice < 96) {
    complete_one();
  } else {
    empty_cache();
  }
}

std::vector<ToyAllocator::Hole> ToyAllocator::holes() const {
  std::vector<Hole> found;
  auto block = now_.blocks.begin();
  for (const auto& [address, segment] : now_.segments) {
    const std::uint64_t end = address + segment.size_bytes;
    std::uint64_t at = address;
    for (; block != now_.blocks.end() && block->first < end; ++block) {
      if (block->first > at) found.push_back({at, block->first - at, address});
      at = block->first + block->second.size_bytes;
    }
    if (at < end) found.push_back({at, end - at, address});
  }
  return found;
}

bool ToyAllocator::is_home(const Hole& hole, const Request& request) const {
  const ToySegment& segment = now_.segments.at(hole.segment);
  return segment.size_class == request.size_class() && segment.stream == request.stream;
}

std::optional<ToyAllocator::Hole> ToyAllocator::best_hole(const Request& request) const {
  std::optional<Hole> best;
  for (const Hole& hole : holes()) {
    if (hole.size_bytes < request.size_bytes || !is_home(hole, request)) continue;
    if (!best || hole.size_bytes < best->size_bytes) best = hole;
  }
  // The allocator looks at the smallest hole that is large enough, and at no other.
  if (best && !policy::oversize_rules_admit(best->size_bytes, request.size_bytes, rules_))
    return {};
  return best;
}

ToyAllocator::Hole ToyAllocator::grow(const Request& request) {
  if (rules_.expandable_segments) return map_pages(request);
  const std::uint64_t size = policy::device_allocation(request.size_bytes, rules_);
  const std::uint64_t address = plain_address(size);
  now_.segments[address] = {size, request.size_class(), request.stream};
  record(Action::kSegmentAlloc, address, size, request.stream);
  return {address, size, address};
}

// As from a driver: often a range that was given back before. Now and then a segment starts where
// another ends; they must stay two.
std::uint64_t ToyAllocator::plain_address(std::uint64_t size) {
  const auto used =
      std::ranges::find_if(given_back_, [size](const auto& range) { return range.second >= size; });
  if (used != given_back_.end() && below(2) == 0) {
    const std::uint64_t address = used->first;
    given_back_.erase(used);
    return address;
  }
  const std::uint64_t address = next_plain_;
  next_plain_ += size + below(2) * 64 * kMiB;
  return address;
}

// Pages are mapped behind the last one, onto which a hole at the end is counted.
ToyAllocator::Hole ToyAllocator::map_pages(const Request& request) {
  const std::uint64_t base = base_of(request.size_class(), request.stream);
  const std::uint64_t page = policy::page_size(request.size_class(), rules_);
  std::uint64_t end = base;
  std::uint64_t segment = base;
  for (const auto& [address, held] : now_.segments) {
    if (held.size_class != request.size_class() || held.stream != request.stream) continue;
    segment = address;
    end = address + held.size_bytes;
  }
  std::uint64_t tail = 0;
  for (const Hole& hole : holes()) {
    if (hole.address + hole.size_bytes == end && hole.segment == segment) tail = hole.size_bytes;
  }
  const std::uint64_t added = policy::round_up(request.size_bytes - tail, page);
  ToySegment& grown = now_.segments[segment];
  grown = {grown.size_bytes + added, request.size_class(), request.stream};
  record(Action::kSegmentMap, end, added, request.stream);
  return {end - tail, tail + added, segment};
}

void ToyAllocator::hand_out(std::uint64_t asked_bytes, std::int64_t stream) {
  const Request request{asked_bytes, policy::round_size(asked_bytes, rules_), stream};
  const std::optional<Hole> found = best_hole(request);
  const Hole hole = found ? *found : grow(request);
  const bool fine_split = rules_.expandable_segments || request.size_class() == SizeClass::kSmall;
  const bool split = policy::should_split(hole.size_bytes, request.size_bytes, fine_split, rules_);
  now_.blocks[hole.address] = {split ? request.size_bytes : hole.size_bytes, asked_bytes, false};
  record(Action::kAlloc, hole.address, asked_bytes, stream);
}

void ToyAllocator::free_one(bool at_once) {
  if (now_.blocks.empty()) return;
  auto block =
      std::next(now_.blocks.begin(), static_cast<std::ptrdiff_t>(below(now_.blocks.size())));
  if (block->second.pending) return;
  block->second.pending = true;
  record(Action::kFreeRequested, block->first, block->second.requested_bytes, 0);
  if (at_once) complete(block->first);
}

void ToyAllocator::complete_one() {
  for (const auto& [address, block] : now_.blocks) {
    if (block.pending) return complete(address);
  }
}

void ToyAllocator::complete(std::uint64_t address) {
  const std::uint64_t requested = now_.blocks.at(address).requested_bytes;
  now_.blocks.erase(address);
  record(Action::kFreeCompleted, address, requested, 0);
}

void ToyAllocator::empty_cache() {
  for (const Hole& hole : holes()) {
    if (rules_.expandable_segments) {
      unmap_pages(hole);
      continue;
    }
    const ToySegment segment = now_.segments.at(hole.segment);
    if (hole.size_bytes != segment.size_bytes) continue;
    now_.segments.erase(hole.segment);
    given_back_[hole.address] = hole.size_bytes;
    record(Action::kSegmentFree, hole.address, hole.size_bytes, segment.stream);
  }
}

void ToyAllocator::unmap_pages(const Hole& hole) {
  // An earlier hole of the same segment may have torn it since.
  const auto holder = std::prev(now_.segments.upper_bound(hole.address));
  const std::uint64_t start = holder->first;
  const ToySegment segment = holder->second;
  const std::uint64_t base = base_of(segment.size_class, segment.stream);
  const std::uint64_t page = policy::page_size(segment.size_class, rules_);
  const std::uint64_t first = base + policy::round_up(hole.address - base, page);
  const std::uint64_t last = base + (hole.address + hole.size_bytes - base) / page * page;
  if (last <= first) return;
  const std::uint64_t end = start + segment.size_bytes;
  now_.segments.erase(start);
  if (first > start) now_.segments[start] = {first - start, segment.size_class, segment.stream};
  if (last < end) now_.segments[last] = {end - last, segment.size_class, segment.stream};
  record(Action::kSegmentUnmap, first, last - first, segment.stream);
}

void ToyAllocator::record(Action action,
                          std::uint64_t address,
                          std::uint64_t size,
                          std::int64_t stream) {
  Event event;
  event.action = action;
  event.address = address;
  event.size_bytes = size;
  event.stream = stream;
  event.has_address = true;
  events_.push_back(event);
  states_.push_back(now_);
}

Recording ToyAllocator::recording(std::size_t cut) const {
  Recording recording;
  recording.settings.rules = rules_;
  recording.traces.push_back({0, 0, static_cast<std::uint32_t>(events_.size() - cut)});
  recording.events.assign(events_.begin() + static_cast<std::ptrdiff_t>(cut), events_.end());
  for (const auto& [address, held] : now_.segments) {
    Segment segment;
    segment.address = address;
    segment.size_bytes = held.size_bytes;
    segment.size_class = held.size_class;
    segment.stream = held.stream;
    segment.expandable = rules_.expandable_segments;
    recording.segments.push_back(segment);
  }
  std::vector<Block> blocks;
  for (const auto& [address, used] : now_.blocks) {
    const BlockState state = used.pending ? BlockState::kPending : BlockState::kLive;
    blocks.push_back({address, used.size_bytes, used.requested_bytes, kNoStack, state, true});
  }
  for (const Hole& hole : holes())
    blocks.push_back({hole.address, hole.size_bytes, 0, kNoStack, BlockState::kFree, true});
  std::ranges::sort(blocks, {}, &Block::address);
  recording.blocks = blocks;
  std::uint32_t next = 0;
  for (Segment& segment : recording.segments) {
    segment.first_block = next;
    while (next < blocks.size() && blocks[next].address < segment.address + segment.size_bytes)
      ++next;
    segment.block_count = next - segment.first_block;
  }
  return recording;
}

}  // namespace fragscope::model
