// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/dropin/history.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

namespace fragscope::shim {
namespace {

using engine::Event;

/// Of the calling thread.
struct ThreadFacts {
  Context context;
  std::vector<std::string> compile_contexts;
  std::string metadata;
};

ThreadFacts& facts() {
  static thread_local ThreadFacts facts;
  return facts;
}

TraceEntry::Action action_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kAlloc:
      return TraceEntry::ALLOC;
    case Event::Kind::kFreeRequested:
      return TraceEntry::FREE_REQUESTED;
    case Event::Kind::kFreeCompleted:
      return TraceEntry::FREE_COMPLETED;
    case Event::Kind::kSegmentAlloc:
      return TraceEntry::SEGMENT_ALLOC;
    case Event::Kind::kSegmentFree:
      return TraceEntry::SEGMENT_FREE;
    case Event::Kind::kSegmentMap:
      return TraceEntry::SEGMENT_MAP;
    case Event::Kind::kSegmentUnmap:
      return TraceEntry::SEGMENT_UNMAP;
    case Event::Kind::kSnapshot:
      return TraceEntry::SNAPSHOT;
    case Event::Kind::kOutOfMemory:
      return TraceEntry::OOM;
  }
  return TraceEntry::OOM;
}

/// Blocks are told of as they were asked for, segments and a failure as they are.
std::size_t size_of(const Event& event) {
  const bool is_block = event.kind == Event::Kind::kAlloc ||
                        event.kind == Event::Kind::kFreeRequested ||
                        event.kind == Event::Kind::kFreeCompleted;
  return is_block ? event.requested_size : event.size;
}

TraceEntry entry_of(TraceEntry::Action action,
                    DeviceIndex device,
                    const Event& event,
                    Context context,
                    [[maybe_unused]] std::string metadata) {
  const auto stream = std::bit_cast<cudaStream_t>(event.stream);
  const auto now = c10::getApproximateTime();
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  const auto& compiling = facts().compile_contexts;
  return {action,
          device,
          event.address,
          size_of(event),
          stream,
          event.pool,
          now,
          std::move(context),
          compiling.empty() ? "N/A" : compiling.back(),
          std::move(metadata)};
#else
  return {action, device, event.address, size_of(event), stream, now, std::move(context)};
#endif
}

}  // namespace

void History::set_context(Context context) {
  facts().context = std::move(context);
}

void History::request(const HistoryRequest& request) {
  TORCH_CHECK(request.when == RecordContext::NEVER || request.context != nullptr);
  is_enabled_ = request.is_enabled;
  create_context_ = request.is_enabled ? request.context : nullptr;
  when_ = request.is_enabled ? request.when : RecordContext::NEVER;
  skipped_ = request.skipped;
  auto kept = entries();
  if (!request.is_enabled || request.is_cleared) kept.clear();
  most_entries_ = std::max<std::size_t>(request.most_entries, 1);
  if (kept.size() > most_entries_) {
    kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(most_entries_));
  }
  entries_ = std::move(kept);
  next_ = 0;
}

bool History::is_needed() const {
  return is_enabled() || !trackers_.empty() || !blocks_.empty() || !segments_.empty();
}

// In PyTorch's allocator a segment's stack belongs to a block; of one that is cut it stays with the
// rest, and the front, which a snapshot asks, has none from then on.
void History::forget_split_origin(const Event& alloc) {
  const auto place = segments_.find(alloc.address);
  if (place != segments_.end() && alloc.size < place->second.size) segments_.erase(place);
}

// Keeps the stacks of what is there, and gives the one that belongs to the event: of a free without
// one of its own that of the allocation.
Context History::follow(const Event& event) {
  Context context = facts().context;
  const auto or_else = [&](Context known) { return context != nullptr ? context : known; };
  switch (event.kind) {
    case Event::Kind::kAlloc:
      blocks_.erase(event.address);
      if (context != nullptr) blocks_[event.address] = context;
      forget_split_origin(event);
      return context;
    case Event::Kind::kSegmentAlloc:
    case Event::Kind::kSegmentMap:
      if (context != nullptr) segments_[event.address] = {context, event.size};
      return context;
    case Event::Kind::kFreeRequested:
      return or_else(context_of_block(event.address));
    case Event::Kind::kFreeCompleted:
      context = or_else(context_of_block(event.address));
      blocks_.erase(event.address);
      return context;
    case Event::Kind::kSegmentFree:
    case Event::Kind::kSegmentUnmap:
      context = or_else(context_of_segment(event.address));
      segments_.erase(event.address);
      return context;
    case Event::Kind::kSnapshot:
      return nullptr;
    case Event::Kind::kOutOfMemory:
      return context;
  }
  return nullptr;
}

void History::on_event(const Event& event) noexcept {
  // PyTorch lets what a tracker throws go on, and loses the block. Nothing leaves here.
  try {
    Context context = follow(event);
    if (when_.load(std::memory_order_relaxed) < RecordContext::ALLOC) context = nullptr;
    if (!is_enabled() && trackers_.empty()) return;
    add(entry_of(action_of(event.kind), device_, event, std::move(context), facts().metadata));
  } catch (const std::exception&) {
    // Without memory there is one entry less.
  }
}

void History::add(TraceEntry entry) {
  for (const AllocatorTraceTracker& tracker : trackers_)
    tracker(entry);
  if (!is_enabled() || std::ranges::count(skipped_, entry.action_) > 0) return;
  if (entries_.size() < most_entries_) {
    entries_.push_back(std::move(entry));
    return;
  }
  entries_[next_] = std::move(entry);
  next_ = (next_ + 1) % most_entries_;
}

void History::annotate([[maybe_unused]] policy::Address address,
                       [[maybe_unused]] const engine::HandedOut& block,
                       [[maybe_unused]] const std::string& text) {
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  if (!is_enabled() && trackers_.empty()) return;
  Event event;
  event.address = address;
  event.size = block.size;
  event.requested_size = block.requested_size;
  event.stream = block.stream;
  event.pool = block.pool;
  add(entry_of(TraceEntry::ANNOTATE, device_, event, nullptr, text));
#endif
}

std::vector<TraceEntry> History::entries() const {
  const auto oldest = entries_.begin() + static_cast<std::ptrdiff_t>(next_);
  std::vector<TraceEntry> all(oldest, entries_.end());
  all.insert(all.end(), entries_.begin(), oldest);
  return all;
}

Context History::context_of_block(policy::Address address) const {
  const auto place = blocks_.find(address);
  return place == blocks_.end() ? nullptr : place->second;
}

Context History::context_of_segment(policy::Address address) const {
  const auto place = segments_.find(address);
  return place == segments_.end() ? nullptr : place->second.context;
}

void push_compile_context(const std::string& text) {
  facts().compile_contexts.push_back(text);
}

void pop_compile_context() {
  if (!facts().compile_contexts.empty()) facts().compile_contexts.pop_back();
}

void set_user_metadata(const std::string& text) {
  facts().metadata = text;
}

std::string user_metadata() {
  return facts().metadata;
}

}  // namespace fragscope::shim
