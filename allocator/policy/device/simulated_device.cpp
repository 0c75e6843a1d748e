// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/device/simulated_device.hpp"

#include "allocator/policy/size_rules.hpp"
#include "trace/check.hpp"

#include <algorithm>
#include <iterator>

namespace fragscope::policy {

SimulatedDevice::SimulatedDevice(std::uint64_t total_bytes, Address base, SimulatedStreams* streams)
    : total_bytes_(total_bytes)
    , base_(base)
    , streams_(streams) {}

std::optional<Address> SimulatedDevice::place(std::uint64_t size) {
  const auto behind = full_below_.upper_bound(size);
  Address at = behind == full_below_.begin() ? base_ : std::prev(behind)->second;
  Address hole_end = base_ + kAddressSpace;
  auto range = ranges_.upper_bound(at);
  if (range != ranges_.begin()) --range;
  for (; range != ranges_.end(); ++range) {
    const auto [start, length] = *range;
    if (start >= at && start - at >= size) {
      hole_end = start;
      break;
    }
    at = std::max(at, round_up(start + length, kRoundLarge));
  }
  // What is said of a size holds for every larger one.
  for (auto larger = full_below_.insert_or_assign(size, at).first;
       larger != full_below_.end() && larger->second <= at;
       ++larger) {
    larger->second = at;
  }
  if (at >= hole_end || hole_end - at < size) return std::nullopt;
  ranges_.emplace(at, size);
  return at;
}

void SimulatedDevice::forget(Address address) {
  const auto range = ranges_.find(address);
  FRAGSCOPE_CHECK(range != ranges_.end());
  Address begin = base_;
  if (range != ranges_.begin()) {
    const auto before = std::prev(range);
    begin = std::max(begin, round_up(before->first + before->second, kRoundLarge));
  }
  ranges_.erase(range);
  for (auto& [size, full] : full_below_)
    full = std::min(full, begin);
}

void SimulatedDevice::fail(Fault kind, std::uint64_t nth, bool onward) {
  faults_[static_cast<std::size_t>(kind)] = {nth, onward};
}

/// Counts the call, and the memory if it may have it.
bool SimulatedDevice::take(Fault kind, std::uint64_t size) {
  PlannedFault& fault = faults_[static_cast<std::size_t>(kind)];
  if (fault.calls_left == 1) {
    if (!fault.onward) fault = {};
    return false;
  }
  if (fault.calls_left > 1) --fault.calls_left;
  if (size > capacity().free_bytes) return false;
  used_bytes_ += size;
  return true;
}

std::optional<Address> SimulatedDevice::allocate(std::uint64_t size) {
  const std::uint64_t pages = round_up(size, kRoundLarge);
  if (!take(Fault::kAllocate, pages)) return std::nullopt;
  const auto address = place(size);
  if (!address) used_bytes_ -= pages;
  return address;
}

void SimulatedDevice::free(Address address, std::uint64_t size) {
  forget(address);
  used_bytes_ -= round_up(size, kRoundLarge);
  if (streams_ != nullptr) streams_->wait_for_all();
}

std::optional<Address> SimulatedDevice::reserve(std::uint64_t size) {
  return place(size);
}

bool SimulatedDevice::map(Address /*address*/, std::uint64_t size, std::uint64_t page_size) {
  for (std::uint64_t mapped = 0; mapped < size; mapped += page_size) {
    if (take(Fault::kPage, page_size)) continue;
    used_bytes_ -= mapped;
    return false;
  }
  return true;
}

void SimulatedDevice::unmap(Address /*address*/, std::uint64_t size) {
  used_bytes_ -= size;
}

void SimulatedDevice::release(Address address, std::uint64_t /*size*/) {
  forget(address);
}

Capacity SimulatedDevice::capacity() const {
  const std::uint64_t left = total_bytes_ - std::min(total_bytes_, used_bytes_);
  return {left - std::min(left, outside_bytes_), total_bytes_};
}

void SimulatedDevice::hold(Address address, std::uint64_t size, std::uint64_t memory_bytes) {
  FRAGSCOPE_CHECK(ranges_.emplace(address, size).second);
  used_bytes_ += memory_bytes;
}

void SimulatedDevice::set_outside_bytes(std::uint64_t bytes) {
  outside_bytes_ = bytes;
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
  const auto held = open_.find(event);
  if (held != open_.end()) release(StreamId{held->second});
}

void SimulatedStreams::release(StreamId stream) {
  held_.erase(stream);
  std::erase_if(open_, [stream](const auto& entry) { return entry.second == stream; });
}

std::optional<std::vector<CaptureNode>> SimulatedStreams::capture_ends(StreamId stream) const {
  const auto captured = captured_.find(stream);
  if (captured == captured_.end()) return std::nullopt;
  return std::vector(captured->second.begin(), captured->second.end());
}

bool SimulatedStreams::precede(const std::vector<CaptureNode>& nodes, StreamId stream) const {
  std::set<CaptureNode> before;
  std::vector<CaptureNode> open = capture_ends(stream).value_or(std::vector<CaptureNode>{});
  while (!open.empty()) {
    const CaptureNode node = open.back();
    open.pop_back();
    if (!before.insert(node).second) continue;
    const std::set<CaptureNode>& inputs = nodes_[node - first_node_];
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return std::ranges::all_of(nodes, [&](CaptureNode node) { return before.contains(node); });
}

void SimulatedStreams::join_capture(StreamId stream, StreamId joining) {
  const std::set<CaptureNode> ends = captured_.at(stream);
  captured_[joining].insert(ends.begin(), ends.end());
}

void SimulatedStreams::capture_work(StreamId stream) {
  std::set<CaptureNode>& ends = captured_.at(stream);
  nodes_.push_back(std::move(ends));
  ends = {first_node_ + nodes_.size() - 1};
}

void SimulatedStreams::end_capture() {
  captured_.clear();
  first_node_ += nodes_.size();
  nodes_.clear();
}

void SimulatedStreams::wait_for_all() {
  while (!open_.empty())
    release(StreamId{open_.begin()->second});
}

}  // namespace fragscope::policy
