// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/arena/arena_replay.hpp"

#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace fragscope::whatif {
namespace {

using model::show_bytes;

constexpr std::uint64_t kNoCapacity = std::numeric_limits<std::uint64_t>::max() / 2;

}  // namespace

ArenaReplay::ArenaReplay(const Program& program, ArenaKind kind)
    : arena_(make_arena(kind))
    , slots_(program.slot_count) {
  std::size_t next = 0;
  for (const policy::ImageSegment& segment : program.start.segments) {
    for (const policy::ImageBlock& block : segment.blocks) {
      if (!block.is_allocated) continue;
      Op op;
      op.slot = program.start_slots[next++];
      op.bytes = block.requested_size > 0 ? block.requested_size : block.size;
      static_cast<void>(allocate(op, kNoCapacity));
    }
  }
}

bool ArenaReplay::run(const Op& op, std::uint64_t capacity) {
  switch (op.kind) {
    case OpKind::kAllocate:
      return allocate(op, capacity);
    case OpKind::kFree:
      free(op.slot);
      return true;
    case OpKind::kRecordStream:
      slots_[op.slot].is_used_elsewhere |= op.stream != slots_[op.slot].stream;
      return true;
    case OpKind::kComplete:
      complete(op.slot);
      return true;
    default:
      return true;
  }
}

bool ArenaReplay::allocate(const Op& op, std::uint64_t capacity) {
  if (op.bytes >= policy::kTooLarge) return false;  // Its rounding would overflow.
  const std::uint64_t bytes = std::max<std::uint64_t>(op.bytes, 1);
  const std::uint64_t end = arena_->end();
  std::optional<std::uint64_t> offset = arena_->allocate(bytes, capacity);
  if (!offset && !pending_.empty()) {
    complete_all();
    offset = arena_->allocate(bytes, capacity);
  }
  if (!offset) return false;
  if (arena_->end() > end) ++growths_;
  if (op.failed) {
    arena_->free(*offset);  // What the program would have done with it is not known.
    return true;
  }
  slots_[op.slot] = {*offset, bytes, op.stream, true, false};
  requested_bytes_ += bytes;
  ++live_blocks_;
  return true;
}

void ArenaReplay::free(std::uint32_t number) {
  Slot& slot = slots_[number];
  if (!slot.is_live) return;
  slot.is_live = false;
  requested_bytes_ -= slot.requested_bytes;
  --live_blocks_;
  if (slot.is_used_elsewhere) {
    pending_bytes_ += arena_->block_bytes(slot.requested_bytes);
    pending_[number].push_back(slot);
  } else {
    arena_->free(slot.offset);
  }
}

void ArenaReplay::complete(std::uint32_t number) {
  const auto blocks = pending_.find(number);
  if (blocks == pending_.end()) return;
  for (const Slot& slot : blocks->second) {
    pending_bytes_ -= arena_->block_bytes(slot.requested_bytes);
    arena_->free(slot.offset);
  }
  pending_.erase(blocks);
}

void ArenaReplay::complete_all() {
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, blocks] : pending_)
    numbers.push_back(number);
  std::ranges::sort(numbers);  // The order decides which hole is the newest.
  for (const std::uint32_t number : numbers)
    complete(number);
}

verdict::Verdict ArenaReplay::why(std::uint64_t bytes, std::uint64_t capacity) const {
  const std::uint64_t need =
      bytes >= policy::kTooLarge ? bytes : arena_->block_bytes(std::max<std::uint64_t>(bytes, 1));
  // Without a hole, nothing below the end can be used again.
  const bool has_hole = arena_->largest_hole() > 0;
  const std::uint64_t taken = has_hole ? arena_->used_bytes() : arena_->end();
  const std::uint64_t free = capacity - std::min(capacity, taken);
  verdict::Verdict verdict;
  verdict.certainty = verdict::Certainty::kProven;
  if (need > free) {
    verdict.kind = verdict::VerdictKind::kCapacity;
    verdict.short_by_bytes = need - free;
    verdict.text = fmt::format("{} are needed and {} are free in all; short by {}.",
                               show_bytes(need),
                               show_bytes(free),
                               show_bytes(need - free));
  } else {
    verdict.kind = verdict::VerdictKind::kFragmented;
    verdict.text = fmt::format(
        "{} are free in all, but the largest hole has {} of the {} bytes needed; {} behind the "
        "last block were never taken.",
        show_bytes(free),
        model::show_count(arena_->largest_hole()),
        model::show_count(need),
        show_bytes(capacity - std::min(capacity, arena_->end())));
  }
  return verdict;
}

model::StateSummary ArenaReplay::state() const {
  model::StateSummary state;
  const std::uint64_t free = arena_->end() - arena_->used_bytes();
  state.reserved_bytes = arena_->end();
  state.allocated_bytes = model::exactly(allocated_bytes());
  state.requested_bytes = requested_bytes_;
  state.active_bytes = model::exactly(arena_->used_bytes());
  state.pending_bytes = model::exactly(pending_bytes_);
  state.free_bytes = model::exactly(free);
  state.largest_hole_bytes = model::exactly(arena_->largest_hole());
  state.segments = arena_->end() > 0 ? 1 : 0;
  state.blocks = live_blocks_;
  state.gap.rounding_bytes = allocated_bytes() - requested_bytes_;
  state.gap.pending_bytes = pending_bytes_;
  state.gap.stuck_bytes = free;
  return state;
}

}  // namespace fragscope::whatif
