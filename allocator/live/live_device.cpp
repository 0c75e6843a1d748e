// SPDX-License-Identifier: Apache-2.0
#include "allocator/live/live_device.hpp"

#include "allocator/policy/inspect/out_of_memory_message.hpp"

#include <utility>

namespace fragscope::live {

LiveDevice::LiveDevice(const driver::Api& api,
                       driver::Device device,
                       const policy::PolicyOptions& options,
                       recorder::ProcessRecorder& recorders)
    : device_(std::move(device))
    , witness_(api, device_.ordinal)
    , memory_(api, device_)
    , events_(api, device_)
    , recorder_(recorders.of({device_.ordinal, device_.uuid, device_.name, device_.total_bytes}))
    , ring_path_(recorders.ring_path(device_.ordinal))
    , policy_(memory_, events_, options, recorder_) {
  if (recorder_ == nullptr) return;
  recorder_->watch(&policy_);
  witness_.record_facts(*recorder_);
  witness_.look().record(*recorder_, memory_.capacity());
}

policy::Address LiveDevice::allocate(std::uint64_t bytes,
                                     policy::StreamId stream,
                                     std::optional<Refusal>& refused) {
  const std::lock_guard lock(mutex_);
  events_.use(stream);
  const policy::Block* block = policy_.allocate(bytes, stream);
  if (block != nullptr) return block->address;
  refused = refusal();
  return 0;
}

Refusal LiveDevice::refusal() const {
  Refusal refusal{policy_.failure(), {}};
  // Where PyTorch asks, too: the request has failed, and the lock is held.
  const DeviceSight sight = witness_.look();
  if (recorder_ != nullptr) sight.record(*recorder_, refusal.failure.capacity);
  refusal.message = policy::out_of_memory_message(
      refusal.failure, policy_.options(), device_.ordinal, sight.processes);
  if (!ring_path_.empty()) refusal.message += "\nfragscope analyze " + ring_path_ + " says why.";
  return refusal;
}

bool LiveDevice::give_back(policy::Address address) {
  const std::lock_guard lock(mutex_);
  return policy_.free(address);
}

bool LiveDevice::record_stream(policy::Address address, policy::StreamId stream) {
  const std::lock_guard lock(mutex_);
  policy::Block* block = policy_.find(address);
  if (block != nullptr) policy_.record_stream(*block, stream);
  return block != nullptr;
}

void LiveDevice::empty_cache() {
  const std::lock_guard lock(mutex_);
  static_cast<void>(policy_.empty_cache());
}

void LiveDevice::set_memory_fraction(double fraction) {
  const std::lock_guard lock(mutex_);
  policy_.set_memory_fraction(fraction);
}

std::optional<std::pair<policy::Address, std::uint64_t>> LiveDevice::base_of(
    policy::Address address) {
  const std::lock_guard lock(mutex_);
  const policy::Block* block = policy_.find(address);
  if (block == nullptr) return std::nullopt;
  while (block->prev != nullptr)
    block = block->prev;
  std::uint64_t size = 0;
  for (const policy::Block* at = block; at != nullptr; at = at->next)
    size += at->size;
  return std::pair(block->address, size);
}

void LiveDevice::mark(std::string_view text, recorder::MarkKind kind) {
  if (recorder_ == nullptr) return;
  const std::optional<DeviceSight> sight = witness_.look_if_due();
  const std::lock_guard lock(mutex_);
  recorder_->mark(text, kind);
  if (sight) sight->record(*recorder_, memory_.capacity());
}

void LiveDevice::end_recording() {
  const std::lock_guard lock(mutex_);
  if (recorder_ != nullptr) recorder_->end();
}

}  // namespace fragscope::live
