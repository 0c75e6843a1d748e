// SPDX-License-Identifier: Apache-2.0
// Handing out, taking back, and the settings; private pools and reports are in the file beside.
#include "allocator/live/live_device.hpp"

#include "allocator/live/evidence/failure_verdict.hpp"
#include "allocator/live/guarded.hpp"
#include "allocator/policy/inspect/out_of_memory_message.hpp"
#include "trace/process/ring_directory.hpp"

#include <algorithm>
#include <utility>

namespace fragscope::live {

LiveDevice::LiveDevice(const driver::Api& api,
                       driver::Device device,
                       const LiveOptions& options,
                       recorder::ProcessRecorder& recorders)
    : device_(std::move(device))
    , witness_(api, device_.ordinal)
    , memory_(api, device_)
    , events_(api, device_)
    , recorder_(recorders.of({device_.ordinal, device_.uuid, device_.name, device_.total_bytes}))
    , timed_memory_(memory_, recorder_)
    , ring_path_(recorders.ring_path(device_.ordinal))
    , stack_kind_(recorder_ == nullptr ? stacks::StackKind::kOff : options.stacks)
    , min_stack_size_(options.min_stack_size)
    , policy_(timed_memory_, events_, options.policy, recorder_) {
  if (recorder_ == nullptr) return;
  recorder_->watch(&policy_);
  witness_.record_facts(*recorder_);
  witness_.look().record(*recorder_, memory_.capacity());
}

// --- Handing out and taking back. ----------------------------------------------------------------

namespace {

/// What is recorded within the scope belongs to this stack.
class StackScope {
 public:
  StackScope(recorder::DeviceRecorder* recorder, std::uint32_t stack)
      : recorder_(stack == 0 ? nullptr : recorder) {
    if (recorder_ != nullptr) recorder_->set_stack(stack);
  }
  StackScope(const StackScope&) = delete;
  StackScope& operator=(const StackScope&) = delete;
  ~StackScope() {
    if (recorder_ != nullptr) recorder_->set_stack(0);
  }

 private:
  recorder::DeviceRecorder* recorder_;
};

}  // namespace

engine::Stack LiveDevice::stack_for(std::uint64_t bytes) {
  if (stack_kind_ == stacks::StackKind::kOff || bytes < min_stack_size_) return nullptr;
  return stacks::CallStacks::of_process().walk(stack_kind_);
}

std::uint32_t LiveDevice::stack_id(engine::Stack stack) {
  const auto [place, is_new] = stack_ids_.try_emplace(stack, 0);
  if (is_new) {
    const auto texts = static_cast<const stacks::CallStack*>(stack)->texts();
    place->second = recorder_->intern_stack(texts);
  }
  return place->second;
}

policy::Address LiveDevice::allocate(std::uint64_t bytes,
                                     policy::StreamId stream,
                                     engine::Stack stack,
                                     engine::Refusal& refused) noexcept {
  const policy::Address address = guarded(policy::Address{0}, [&]() -> policy::Address {
    events_.use(stream);
    catch_up();
    const StackScope scope(recorder_, stack == nullptr ? 0 : stack_id(stack));
    if (const policy::Block* block = policy_.allocate(bytes, stream)) return block->address;
    refused = refusal(stream);
    return 0;
  });
  if (address == 0 && refused.message.empty()) {
    refused.message = "fragscope: the host has no memory for the allocator's books";
  }
  return address;
}

policy::Address LiveDevice::allocate_at(std::uint64_t bytes,
                                        policy::StreamId stream,
                                        policy::Address address,
                                        engine::Stack stack) noexcept {
  return guarded(policy::Address{0}, [&]() -> policy::Address {
    events_.use(stream);
    catch_up();
    const StackScope scope(recorder_, stack == nullptr ? 0 : stack_id(stack));
    const policy::Block* block = policy_.allocate_at(bytes, stream, address);
    return block == nullptr ? 0 : block->address;
  });
}

engine::Refusal LiveDevice::refusal(policy::StreamId stream) const {
  static thread_local std::string message;
  const policy::AllocationFailure& failure = policy_.failure();
  // Where PyTorch asks, too: the request has failed, and the lock is held.
  const DeviceSight sight = witness_.look();
  if (recorder_ != nullptr) sight.record(*recorder_, failure.capacity);
  message =
      policy::out_of_memory_message(failure, policy_.options(), device_.ordinal, sight.processes);
  if (failure.kind == policy::AllocationFailure::Kind::kOutOfMemory) {
    message += "\nfragscope: " + failure_verdict(policy_, device_.ordinal, stream);
    if (!ring_path_.empty()) message += " " + trace::what_explains(ring_path_);
  }

  engine::Refusal refusal;
  using Kind = policy::AllocationFailure::Kind;
  refusal.kind = failure.kind == Kind::kOutOfMemory ? engine::Refusal::Kind::kOutOfMemory
                 : failure.kind == Kind::kBeyondAnExbibyte
                     ? engine::Refusal::Kind::kBeyondAnExbibyte
                     : engine::Refusal::Kind::kRejected;
  refusal.device_allocation = failure.device_allocation;
  refusal.allocated_bytes =
      static_cast<std::uint64_t>(policy_.statistics().allocated_bytes.all.current);
  refusal.reserved_bytes = policy_.held_bytes();
  refusal.capacity = failure.capacity;
  refusal.limit_bytes = failure.limit_bytes;
  refusal.message = message;
  return refusal;
}

bool LiveDevice::give_back(policy::Address address) noexcept {
  return guarded(false, [&] {
    catch_up();
    return policy_.free(address);
  });
}

bool LiveDevice::record_stream(policy::Address address, policy::StreamId stream) noexcept {
  return guarded(false, [&] {
    policy::Block* block = policy_.find(address);
    if (block != nullptr) policy_.record_stream(*block, stream);
    return block != nullptr;
  });
}

std::optional<engine::HandedOut> LiveDevice::find(policy::Address address) noexcept {
  using Found = std::optional<engine::HandedOut>;
  return guarded(Found{}, [&]() -> Found {
    const policy::Block* block = policy_.find(address);
    if (block == nullptr) return std::nullopt;
    engine::HandedOut found;
    found.size = block->size;
    found.requested_size = block->requested_size;
    found.stream = block->stream;
    if (block->pool->owner() != nullptr) found.pool = block->pool->owner()->id;
    found.is_expandable = block->expandable != nullptr;
    while (block->prev != nullptr)
      block = block->prev;
    found.segment = block->address;
    for (; block != nullptr; block = block->next)
      found.segment_size += block->size;
    return found;
  });
}

// --- Settings. -----------------------------------------------------------------------------------

bool LiveDevice::empty_cache(policy::PoolId pool) noexcept {
  return guarded(false, [&] { return policy_.empty_cache(pool); });
}

void LiveDevice::set_settings(const engine::Settings& settings) noexcept {
  guarded([&] {
    policy::PolicyOptions options = policy_.options();
    policy::AllocatorConf& conf = options.conf;
    const bool is_new_text = conf.last_text != settings.text;
    conf.rules = settings.rules;
    conf.garbage_collection_threshold = settings.garbage_collection_threshold;
    conf.per_process_memory_fraction = settings.per_process_memory_fraction;
    conf.graph_capture_record_stream_reuse = settings.graph_capture_record_stream_reuse;
    conf.throw_on_cudamalloc_oom = settings.throw_on_cudamalloc_oom;
    conf.last_text = settings.text;
    policy_.set_options(options);
    if (recorder_ != nullptr && is_new_text) recorder_->settings(settings.text);
  });
}

void LiveDevice::set_memory_fraction(double fraction) noexcept {
  guarded([&] { policy_.set_memory_fraction(fraction); });
}

double LiveDevice::memory_fraction() noexcept {
  return guarded(1.0, [&] {
    const auto limit = policy_.limit();
    const std::uint64_t total = device_.total_bytes;
    return limit ? static_cast<double>(*limit) / static_cast<double>(total) : 1.0;
  });
}

void LiveDevice::set_reclaim(std::function<bool()> reclaim) noexcept {
  guarded([&] { policy_.set_reclaim(std::move(reclaim)); });
}

bool LiveDevice::has_expandable_segments() noexcept {
  return guarded(false, [&] { return policy_.has_expandable_segments(); });
}

bool LiveDevice::add_peer(int ordinal) noexcept {
  return guarded(false, [&] { return memory_.add_peer(ordinal); });
}

// --- The trace. ----------------------------------------------------------------------------------

void LiveDevice::write_marks() {
  if (recorder_ == nullptr || !recorder_->is_recording()) return;
  const std::optional<DeviceSight> sight = witness_.look_if_due();
  const std::lock_guard lock(mutex_);
  recorder_->take_marks();
  if (sight) sight->record(*recorder_, memory_.capacity());
}

void LiveDevice::write_annotations() {
  if (recorder_ == nullptr || !recorder_->is_recording()) return;
  const std::lock_guard lock(mutex_);
  if (recorder_->has_room_for_annotations()) recorder_->take_marks();
}

/// What was said and waits for the allocator's next decision.
void LiveDevice::catch_up() {
  if (recorder_ != nullptr && recorder_->is_behind()) [[unlikely]]
    recorder_->take_marks();
}

void LiveDevice::end_recording() {
  const std::lock_guard lock(mutex_);
  if (recorder_ == nullptr) return;
  recorder_->take_marks();
  recorder_->end();
}

void LiveDevice::listen(engine::Listener* listener) noexcept {
  guarded([&] {
    policy_.set_observer(recorder_);
    teller_.reset();
    if (listener == nullptr) return;
    teller_.emplace(recorder_, *listener);
    policy_.set_observer(&*teller_);
  });
}

void LiveDevice::locked(const std::function<void()>& action) noexcept {
  guarded([&] { action(); });
}

}  // namespace fragscope::live
