// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/device/simulated_device.hpp"

#include "allocator/policy/size_rules.hpp"
#include "trace/check.hpp"

#include <algorithm>

namespace fragscope::policy {

SimulatedDevice::SimulatedDevice(std::uint64_t total_bytes, Address base)
    : total_bytes_(total_bytes)
    , base_(base) {}

Address SimulatedDevice::place(std::uint64_t size) {
  Address at = base_;
  for (const auto& [start, length] : ranges_) {
    if (start - at >= size) break;
    at = round_up(start + length, kRoundLarge);
  }
  ranges_.emplace(at, size);
  return at;
}

std::optional<Address> SimulatedDevice::allocate(std::uint64_t size) {
  if (size > capacity().free_bytes) return std::nullopt;
  used_bytes_ += size;
  return place(size);
}

void SimulatedDevice::free(Address address, std::uint64_t size) {
  FRAGSCOPE_CHECK(ranges_.erase(address) == 1);
  used_bytes_ -= size;
}

std::optional<Address> SimulatedDevice::reserve(std::uint64_t size) {
  return place(size);
}

bool SimulatedDevice::map(Address /*address*/, std::uint64_t size, std::uint64_t /*page_size*/) {
  if (size > capacity().free_bytes) return false;
  used_bytes_ += size;
  return true;
}

void SimulatedDevice::unmap(Address /*address*/, std::uint64_t size) {
  used_bytes_ -= size;
}

void SimulatedDevice::release(Address address, std::uint64_t /*size*/) {
  FRAGSCOPE_CHECK(ranges_.erase(address) == 1);
}

Capacity SimulatedDevice::capacity() const {
  return {total_bytes_ - used_bytes_ - outside_bytes_, total_bytes_};
}

void SimulatedDevice::set_outside_bytes(std::uint64_t bytes) {
  outside_bytes_ = std::min(bytes, total_bytes_ - used_bytes_);
}

EventId SimulatedStreams::record(StreamId stream) {
  const EventId event = next_++;
  if (held_.contains(stream)) open_.emplace(event, stream);
  return event;
}

bool SimulatedStreams::is_done(EventId event) {
  return !open_.contains(event);
}

void SimulatedStreams::wait(EventId event) {
  open_.erase(event);
}

void SimulatedStreams::release(StreamId stream) {
  held_.erase(stream);
  std::erase_if(open_, [stream](const auto& entry) { return entry.second == stream; });
}

}  // namespace fragscope::policy
