// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/program/program_builder.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace fragscope::whatif {
namespace {

/// Stands for streams that used a block and are not named: one for each slot, so that none waits
/// for another.
policy::StreamId unnamed_stream(std::uint32_t slot) {
  return ~policy::StreamId{slot};
}

/// A keyframe may come between a free and the merge that follows it.
bool extends_hole(const policy::ImageSegment& segment, const model::HeapBlock& hole) {
  if (segment.blocks.empty()) return false;
  const policy::ImageBlock& last = segment.blocks.back();
  return !last.is_allocated && last.address + last.size == hole.address;
}

/// How much was reserved follows from the device's memory; where that is only taken to be so and so
/// much, address spaces would reach into what lies behind them.
void keep_apart(std::vector<policy::ImageSegment>& segments) {
  std::vector<policy::ImageSegment*> by_address;
  by_address.reserve(segments.size());
  for (policy::ImageSegment& segment : segments)
    by_address.push_back(&segment);
  std::ranges::sort(by_address, {}, &policy::ImageSegment::address);
  policy::Address behind = ~policy::Address{0};
  for (auto segment = by_address.rbegin(); segment != by_address.rend(); ++segment) {
    if ((*segment)->page_size > 0)
      (*segment)->size = std::min((*segment)->size, behind - (*segment)->address);
    behind = (*segment)->address;
  }
}

/// The start of the address space that the range lies in: the last that begins at it or before it.
policy::Address base_of(const model::HeapState& heap, const model::HeapSegment& range) {
  std::optional<policy::Address> base;
  for (const model::ExpandableStart& start : heap.expandable_starts) {
    if (start.address <= range.address && start.home == range.home) {
      base = std::max(base.value_or(start.address), start.address);
    }
  }
  return base.value_or(range.address);
}

}  // namespace

// --- The heap at the beginning. ------------------------------------------------------------------

void ProgramBuilder::begin_with(const model::HeapState& heap,
                                std::span<const model::PoolId> pools,
                                const policy::SizeRules& rules) {
  std::vector<std::pair<policy::Address, std::uint32_t>> pending;
  for (const model::HeapSegment& range : heap.segments) {
    const policy::Address base =
        range.home.expandable ? base_of(heap, range) : policy::Address{range.address};
    policy::ImageSegment& segment = image_of(range, base, pools, rules);
    for (const model::HeapBlock& block : heap.blocks_of(range)) {
      const bool is_free = block.state == model::BlockState::kFree;
      if (is_free && extends_hole(segment, block)) {
        segment.blocks.back().size += block.size_bytes;
        continue;
      }
      segment.blocks.push_back(
          {block.address, block.size_bytes, is_free ? 0 : block.requested_bytes, !is_free});
      if (is_free) continue;
      const std::uint32_t slot = take_slot();
      const bool is_pending = block.state == model::BlockState::kPending;
      known_[block.address] = {slot, is_pending, is_pending, true};
      program_.start_slots.push_back(slot);
      if (is_pending) pending.emplace_back(block.address, slot);
    }
  }
  take_spaces(heap, pools, rules);
  keep_apart(program_.start.segments);
  for (const auto& [address, slot] : pending) {
    Op& use = add(OpKind::kRecordStream);
    use.slot = slot;
    use.stream = stream_index(unnamed_stream(slot));
    add(OpKind::kFree).slot = slot;
  }
}

/// The plain segment, or the address space; its ranges follow each other.
policy::ImageSegment& ProgramBuilder::image_of(const model::HeapSegment& range,
                                               policy::Address base,
                                               std::span<const model::PoolId> pools,
                                               const policy::SizeRules& rules) {
  auto& segments = program_.start.segments;
  const bool expandable = range.home.expandable;
  const bool is_new = !expandable || segments.empty() || segments.back().address != base;
  policy::ImageSegment& segment = is_new ? segments.emplace_back() : segments.back();
  segment.address = base;
  segment.size = range.address + range.size_bytes - base;
  segment.stream = static_cast<policy::StreamId>(range.home.stream);
  const model::PoolId& pool = pools[model::index_of(range.home.pool)];
  segment.pool = {pool.first, pool.second};
  segment.size_class = range.home.size_class;
  segment.number = range.number;
  if (!expandable) return segment;
  segment.page_size = policy::page_size(range.home.size_class, rules);
  // An eighth more than the device has, unless options said otherwise.
  const std::uint64_t total = program_.total_bytes();
  const std::uint64_t space = policy::round_up(total + total / 8, segment.page_size);
  segment.size = std::max(segment.size, space);
  return segment;
}

/// Keyframes of ours say how large address spaces are, and list those without pages, too: they have
/// their place in the order of segments.
void ProgramBuilder::take_spaces(const model::HeapState& heap,
                                 std::span<const model::PoolId> pools,
                                 const policy::SizeRules& rules) {
  auto& segments = program_.start.segments;
  for (const model::ReservedSpace& space : heap.reserved_spaces) {
    const auto found = std::ranges::find(segments, space.address, &policy::ImageSegment::address);
    const bool is_empty = found == segments.end();
    const model::HeapSegment no_pages{
        .address = space.address, .home = space.home, .number = space.number};
    policy::ImageSegment& segment =
        is_empty ? image_of(no_pages, space.address, pools, rules) : *found;
    if (segment.page_size == 0) continue;
    const policy::Address end = segment.blocks.empty()
                                    ? segment.address
                                    : segment.blocks.back().address + segment.blocks.back().size;
    segment.size = std::max(space.size_bytes, end - segment.address);
  }
}

// --- Requests and frees. -------------------------------------------------------------------------

Op& ProgramBuilder::add(OpKind kind) {
  Op& op = program_.ops.emplace_back();
  op.kind = kind;
  op.event = event_;
  program_.addresses.push_back(0);
  return op;
}

std::uint32_t ProgramBuilder::take_slot() {
  if (spare_slots_.empty()) return program_.slot_count++;
  const std::uint32_t slot = spare_slots_.back();
  spare_slots_.pop_back();
  return slot;
}

std::uint16_t ProgramBuilder::pool_index(policy::PoolId pool) {
  if (pool == policy::PoolId{}) return 0;
  const auto next = static_cast<std::uint16_t>(program_.pools.size());
  const auto [found, is_new] = pools_.try_emplace(pool, next);
  if (is_new) program_.pools.push_back(pool);
  return found->second;
}

std::uint32_t ProgramBuilder::stream_index(policy::StreamId stream) {
  if (stream == 0) return 0;
  const auto next = static_cast<std::uint32_t>(program_.streams.size());
  const auto [found, is_new] = streams_.try_emplace(stream, next);
  if (is_new) program_.streams.push_back(stream);
  return found->second;
}

std::size_t ProgramBuilder::request(std::uint64_t bytes, const Home& home, bool failed) {
  end_free(false);
  // A refused request has waited for all that was pending before it gave up; where that began is
  // not always known.
  if (tells_retries_ && !is_in_miss_) add_completions(late_slots_);
  if (!failed || is_in_miss_) add_completions(completed_slots_);
  note_kind_of_segments(home.pool);
  give_group_to_next_op(true);
  const std::uint16_t pool = pool_index(home.pool);
  const std::uint32_t stream = stream_index(home.stream);
  const std::size_t index = program_.ops.size();
  Op& op = add(OpKind::kAllocate);
  op.failed = failed;
  op.retried = is_in_miss_;
  op.bytes = bytes;
  op.pool = pool;
  op.stream = stream;
  is_in_miss_ = false;
  use_pools_again();
  add_completions(late_slots_);
  add_completions(completed_slots_);
  return index;
}

void ProgramBuilder::allocate(policy::Address address, std::uint64_t bytes, const Home& home) {
  if (known_.contains(address)) forget(address);
  const std::size_t op = request(bytes, home, false);
  const std::uint32_t slot = take_slot();
  known_[address] = {slot, false, false, false};
  program_.ops[op].slot = slot;
  program_.addresses[op] = address;
}

void ProgramBuilder::fail(std::uint64_t bytes, const Home& home) {
  static_cast<void>(request(bytes, home, true));
}

void ProgramBuilder::free(policy::Address address) {
  end_group();
  const auto known = known_.find(address);
  if (known == known_.end() || known->second.is_freed) {
    ++unknown_frees_;
    return;
  }
  known->second.is_freed = true;
  open_free_ = known->second.slot;
  open_free_waits_ = known->second.was_used;
  open_free_is_of_start_ = known->second.is_of_start;
}

// A free that is complete with its own event waited for nobody. Any other did, whether the use on
// another stream was recorded or not; and of a block that was there at the beginning it may have
// been several, of which only some are recorded.
void ProgramBuilder::end_free(bool is_complete) {
  if (!open_free_) return;
  const std::uint32_t slot = *std::exchange(open_free_, std::nullopt);
  add_completions(completed_slots_);
  if (!is_complete && (!open_free_waits_ || open_free_is_of_start_)) {
    Op& use = add(OpKind::kRecordStream);
    use.slot = slot;
    use.stream = stream_index(unnamed_stream(slot));
  }
  add(OpKind::kFree).slot = slot;
}

void ProgramBuilder::record_stream(policy::Address address, policy::StreamId stream) {
  end_group();
  add_completions(completed_slots_);
  const auto known = known_.find(address);
  if (known == known_.end() || known->second.is_freed) return;
  known->second.was_used = true;
  const std::uint32_t slot = known->second.slot;
  const std::uint32_t index = stream_index(stream);
  Op& op = add(OpKind::kRecordStream);
  op.slot = slot;
  op.stream = index;
}

void ProgramBuilder::complete(policy::Address address) {
  const auto known = known_.find(address);
  if (known == known_.end() || !known->second.is_freed) return;
  const std::uint32_t slot = known->second.slot;
  const bool is_at_once = open_free_ == slot && !known->second.was_used;
  end_free(is_at_once);
  known_.erase(known);
  // A slot whose end is still to be told is not used again before that.
  if (is_at_once) {
    spare_slots_.push_back(slot);
  } else if (is_in_miss_ || group_gives_back_) {
    late_slots_.push_back(slot);
  } else {
    completed_slots_.push_back(slot);
  }
}

// What is handed out again was free, whatever the recording leaves out.
void ProgramBuilder::forget(policy::Address address) {
  if (!known_[address].is_freed) free(address);
  complete(address);
}

void ProgramBuilder::add_completions(std::vector<std::uint32_t>& slots) {
  for (const std::uint32_t slot : slots)
    add(OpKind::kComplete).slot = slot;
  spare_slots_.insert(spare_slots_.end(), slots.begin(), slots.end());
  slots.clear();
}

// --- The driver. ---------------------------------------------------------------------------------

void ProgramBuilder::device_call(DeviceCall::Kind kind,
                                 policy::Address address,
                                 std::uint64_t size,
                                 policy::Address base,
                                 policy::PoolId pool,
                                 std::uint32_t nanoseconds) {
  end_free(false);
  group_.push_back({kind, 0, address, size, base, false, nanoseconds});
  if (kind == DeviceCall::Kind::kAllocate || kind == DeviceCall::Kind::kMap) {
    group_gets_ = true;
    return;
  }
  group_gives_back_ = true;
  // A release waits for what is pending first.
  late_slots_.insert(late_slots_.end(), completed_slots_.begin(), completed_slots_.end());
  completed_slots_.clear();
  const std::uint16_t from = pool_index(pool);
  group_default_gives_back_ = group_default_gives_back_ || from == 0;
  if (from != 0 && std::ranges::count(group_pools_, from) == 0) group_pools_.push_back(from);
}

void ProgramBuilder::retry() {
  end_free(false);
  // What was complete before was so for the first attempt already, which gives back without
  // waiting.
  add_completions(late_slots_);
  add_completions(completed_slots_);
  for (DeviceCall& call : group_)
    call.is_first_try = true;
  is_in_miss_ = true;
}

void ProgramBuilder::cache_released(policy::PoolId only) {
  release(pool_index(only));
}

std::uint16_t ProgramBuilder::released_pool() const {
  return group_pools_.size() == 1 && !group_default_gives_back_ ? group_pools_.front()
                                                                : std::uint16_t{0};
}

void ProgramBuilder::release(std::uint16_t only) {
  end_free(false);
  if (is_in_miss_) return;
  // The driver gave some before the cache was released: that cannot be.
  if (group_gets_) return;
  // Old versions do not say whose the segments were that went back.
  const bool is_untold = only != 0 && group_pools_.empty();
  if (is_untold && group_gives_back_) group_pools_.push_back(only);
  add_completions(completed_slots_);
  give_group_to_next_op(false);
  add(OpKind::kEmptyCache).pool = only;
  use_pools_again();
  add_completions(late_slots_);
}

// Something else than a request comes: what went back did so by itself.
void ProgramBuilder::end_group() {
  end_free(false);
  if (group_gives_back_ && !group_gets_ && !is_in_miss_) release(released_pool());
}

void ProgramBuilder::give_group_to_next_op(bool is_of_request) {
  const std::uint16_t only = released_pool();
  unused_pools_ = std::exchange(group_pools_, {});
  for (const std::uint16_t pool : unused_pools_)
    add(OpKind::kReleasePool).pool = pool;
  const auto gives_back = [](const DeviceCall& call) {
    return call.kind == DeviceCall::Kind::kFree || call.kind == DeviceCall::Kind::kUnmap;
  };
  const auto is_own = std::ranges::find_if_not(group_, gives_back);
  const bool is_unclear = is_of_request && !is_in_miss_ && is_own != group_.begin();
  if (is_unclear) add(OpKind::kRelease).pool = only;
  for (auto call = group_.begin(); call != group_.end(); ++call) {
    const bool is_of_release = is_unclear && call < is_own;
    call->op = static_cast<std::uint32_t>(program_.ops.size()) - (is_of_release ? 1 : 0);
    program_.device_calls.push_back(*call);
  }
  group_.clear();
  group_gives_back_ = group_default_gives_back_ = group_gets_ = false;
}

// Nobody records when a pool loses its last user or gets one again; only what went back shows it.
void ProgramBuilder::use_pools_again() {
  for (const std::uint16_t pool : std::exchange(unused_pools_, {}))
    add(OpKind::kUsePool).pool = pool;
}

// The option may be changed at any time, and a snapshot shows it at the end alone. A pool with an
// allocator of its own has plain segments all the same.
void ProgramBuilder::note_kind_of_segments(policy::PoolId pool) {
  for (const DeviceCall& call : group_) {
    const bool is_page = call.kind == DeviceCall::Kind::kMap;
    if (!is_page && call.kind != DeviceCall::Kind::kAllocate) continue;
    if (is_page == is_expandable_ || (!is_page && pool != policy::PoolId{})) return;
    is_expandable_ = is_page;
    add(OpKind::kExpandable).bytes = is_page ? 1 : 0;
    return;
  }
}

// --- Everything else. ----------------------------------------------------------------------------

void ProgramBuilder::limit(std::uint64_t bytes) {
  end_group();
  add(OpKind::kLimit).bytes = bytes;
}

void ProgramBuilder::settings(std::string text) {
  end_group();
  add(OpKind::kSettings).bytes = program_.texts.size();
  program_.texts.push_back(std::move(text));
}

void ProgramBuilder::capture(bool begins) {
  if (begins == is_capturing_) return;
  is_capturing_ = begins;
  end_group();
  add_completions(completed_slots_);
  add(OpKind::kCapture).bytes = begins ? 1 : 0;
}

void ProgramBuilder::mark(std::string text, std::uint16_t kind) {
  end_group();
  Op& op = add(OpKind::kMark);
  op.bytes = program_.texts.size();
  op.pool = kind;
  program_.texts.push_back(std::move(text));
}

Program ProgramBuilder::finish() {
  end_group();
  add_completions(completed_slots_);
  return std::move(program_);
}

// It takes whole segments of the default pool alone.
void doubt_unknown_ages(Program& program) {
  const bool collects = program.conf.garbage_collection_threshold > 0 ||
                        std::ranges::any_of(program.texts, [](const std::string& text) {
                          return text.find("garbage_collection_threshold") != std::string::npos;
                        });
  const bool has_free =
      std::ranges::any_of(program.start.segments, [](const policy::ImageSegment& segment) {
        return segment.pool == policy::PoolId{} &&
               segment.size_class == policy::SizeClass::kLarge && segment.blocks.size() == 1 &&
               !segment.blocks.front().is_allocated;
      });
  if (!collects || !has_free) return;
  program.doubts.emplace_back(
      "for how long blocks were free at the beginning is not known: of those, garbage "
      "collection may have given others back");
}

}  // namespace fragscope::whatif
