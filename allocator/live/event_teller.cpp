// SPDX-License-Identifier: Apache-2.0
#include "allocator/live/event_teller.hpp"

namespace fragscope::live {

using engine::Event;
using policy::Address;
using policy::Block;
using policy::Observer;
using policy::PoolId;
using policy::StreamId;

EventTeller::EventTeller(Observer* recorder, engine::Listener& listener)
    : recorder_(recorder)
    , listener_(listener) {}

void EventTeller::tell(Event::Kind kind, const Block& block, Address start, std::uint64_t size) {
  Event event;
  event.kind = kind;
  event.address = start;
  event.size = size;
  event.requested_size = block.requested_size;
  event.stream = block.stream;
  if (block.pool->owner() != nullptr) event.pool = block.pool->owner()->id;
  listener_.on_event(event);
}

void EventTeller::tell_snapshot(std::uint64_t active_bytes) {
  Event event;
  event.kind = Event::Kind::kSnapshot;
  event.size = active_bytes;
  listener_.on_event(event);
}

void EventTeller::on_alloc(const Block& block) {
  record([&](Observer& recorder) { recorder.on_alloc(block); });
  tell(Event::Kind::kAlloc, block);
}

void EventTeller::on_free_requested(const Block& block) {
  record([&](Observer& recorder) { recorder.on_free_requested(block); });
  tell(Event::Kind::kFreeRequested, block);
}

void EventTeller::on_free_completed(const Block& block) {
  record([&](Observer& recorder) { recorder.on_free_completed(block); });
  tell(Event::Kind::kFreeCompleted, block);
}

void EventTeller::on_segment_alloc(const Block& block) {
  record([&](Observer& recorder) { recorder.on_segment_alloc(block); });
  tell(Event::Kind::kSegmentAlloc, block);
}

void EventTeller::on_segment_free(const Block& block) {
  record([&](Observer& recorder) { recorder.on_segment_free(block); });
  tell(Event::Kind::kSegmentFree, block);
}

void EventTeller::on_segment_freed(const Block& block) {
  record([&](Observer& recorder) { recorder.on_segment_freed(block); });
}

void EventTeller::on_segment_map(const Block& block, Address start, std::uint64_t size) {
  record([&](Observer& recorder) { recorder.on_segment_map(block, start, size); });
  tell(Event::Kind::kSegmentMap, block, start, size);
}

void EventTeller::on_segment_unmap(const Block& block, Address start, std::uint64_t size) {
  record([&](Observer& recorder) { recorder.on_segment_unmap(block, start, size); });
  tell(Event::Kind::kSegmentUnmap, block, start, size);
}

void EventTeller::on_split(const Block& front, const Block& rest) {
  record([&](Observer& recorder) { recorder.on_split(front, rest); });
}

void EventTeller::on_merge(const Block& block, Address start, std::uint64_t size) {
  record([&](Observer& recorder) { recorder.on_merge(block, start, size); });
}

void EventTeller::on_record_stream(const Block& block, StreamId other) {
  record([&](Observer& recorder) { recorder.on_record_stream(block, other); });
}

void EventTeller::on_retry(std::uint64_t device_allocation, StreamId stream) {
  record([&](Observer& recorder) { recorder.on_retry(device_allocation, stream); });
}

void EventTeller::on_cache_release(std::uint64_t bytes, std::uint64_t count, PoolId only) {
  record([&](Observer& recorder) { recorder.on_cache_release(bytes, count, only); });
}

void EventTeller::on_limit(std::optional<std::uint64_t> bytes) {
  record([&](Observer& recorder) { recorder.on_limit(bytes); });
}

void EventTeller::on_out_of_memory(const policy::AllocationFailure& failure,
                                   StreamId stream,
                                   PoolId pool) {
  record([&](Observer& recorder) { recorder.on_out_of_memory(failure, stream, pool); });
  Event event;
  event.kind = Event::Kind::kOutOfMemory;
  event.address = failure.capacity.free_bytes;
  event.size = failure.rounded_size;
  event.requested_size = failure.requested_size;
  event.stream = stream;
  event.pool = pool;
  listener_.on_event(event);
}

}  // namespace fragscope::live
