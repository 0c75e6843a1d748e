// SPDX-License-Identifier: Apache-2.0
// A random program on a policy that stands for PyTorch's own allocator, told as PyTorch tells it:
// requested sizes, no splits, no merges, keyframes out of snapshots whose blocks come later.
#pragma once

#include "allocator/attach/native_device.hpp"
#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/device/simulated_device.hpp"
#include "allocator/policy/inspect/snapshot.hpp"
#include "tests/recorder/recorded_program.hpp"

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace fragscope::attach::test {

using engine::NativeAction;
using engine::NativeBlock;
using engine::NativeEvent;
using policy::kMiB;

class OneRing final : public RingMaker {
 public:
  OneRing(const std::string& directory, recorder::test::RingSize size, std::uint64_t total_bytes)
      : recorders_(recorder::test::recorder_options(directory, size))
      , total_bytes_(total_bytes) {}

  recorder::DeviceRecorder* make(std::int32_t ordinal,
                                 trace::TraceBeginning beginning,
                                 std::string_view conf) noexcept override {
    recorders_.set_conf(std::string(conf));
    recorder::RecordedDevice device{ordinal, {}, "Simulated", total_bytes_};
    device.source = trace::TraceSource::kPytorchNative;
    device.beginning = beginning;
    made = recorders_.of(device);
    return made;
  }
  [[nodiscard]] std::string path_of(std::int32_t ordinal) const override {
    return recorders_.ring_path(ordinal);
  }

  recorder::DeviceRecorder* made = nullptr;

 private:
  recorder::ProcessRecorder recorders_;
  std::uint64_t total_bytes_;
};

/// Turns the policy's steps into PyTorch's events.
class Teller final : public policy::Observer {
 public:
  explicit Teller(NativeDevice& device)
      : device_(device) {}

  void on_alloc(const policy::Block& block) override {
    tell(NativeAction::kAlloc, block, block.address, block.requested_size);
  }
  void on_free_requested(const policy::Block& block) override {
    tell(NativeAction::kFreeRequested, block, block.address, block.requested_size);
  }
  void on_free_completed(const policy::Block& block) override {
    tell(NativeAction::kFreeCompleted, block, block.address, block.requested_size);
  }
  void on_segment_alloc(const policy::Block& block) override {
    tell(NativeAction::kSegmentAlloc, block, block.address, block.size);
  }
  void on_segment_free(const policy::Block& block) override {
    tell(NativeAction::kSegmentFree, block, block.address, block.size);
  }
  void on_segment_map(const policy::Block& block,
                      policy::Address start,
                      std::uint64_t size) override {
    tell(NativeAction::kSegmentMap, block, start, size);
  }
  void on_segment_unmap(const policy::Block& block,
                        policy::Address start,
                        std::uint64_t size) override {
    tell(NativeAction::kSegmentUnmap, block, start, size);
  }
  void on_out_of_memory(const policy::AllocationFailure& failure,
                        policy::StreamId stream,
                        policy::PoolId pool) override {
    NativeEvent event;
    event.action = NativeAction::kOutOfMemory;
    event.address = failure.capacity.free_bytes;
    event.size = failure.rounded_size;
    event.requested = failure.requested_size;
    event.stream = stream;
    event.pool_first = pool.first;
    event.pool_second = pool.second;
    tell(event);
  }

  void tell(const NativeEvent& event) {
    if (is_told) is_due = device_.on_event(event) || is_due;
  }

  std::uint64_t requested = 0;  ///< By the call that is under way.
  bool is_told = true;
  bool is_due = false;

 private:
  void tell(NativeAction action,
            const policy::Block& block,
            std::uint64_t address,
            std::uint64_t size) {
    NativeEvent event;
    event.action = action;
    event.address = address;
    event.size = size;
    event.requested = requested;
    event.stream = block.stream;
    if (block.pool->owner() != nullptr) {
      event.pool_first = block.pool->owner()->id.first;
      event.pool_second = block.pool->owner()->id.second;
    }
    tell(event);
  }

  NativeDevice& device_;
};

class NativeProgram {
 public:
  NativeProgram(std::uint32_t seed, const std::string& directory, recorder::test::RingSize size)
      : draw_(seed)
      , memory_((256 + pick(1024)) * kMiB)
      , maker_(directory, size, memory_.capacity().total_bytes)
      , device_(0, maker_)
      , teller_(device_)
      , policy_(memory_, streams_, options_, &teller_) {
    change_settings();
  }

  /// What comes until `attach` is told to nobody.
  void detach() { teller_.is_told = false; }
  void attach() {
    device_.begin_in_the_middle();
    tell_again();
    take_snapshot();  // its event writes what the first one found
  }
  void tell_again() {
    teller_.is_told = true;
    take_snapshot();
    hand_over();
  }

  void step() {
    if (teller_.is_due && !blocks_ && pick(3) == 0) take_snapshot();
    // Others may do something before the blocks are there.
    if (blocks_ && pick(4) == 0) hand_over();
    switch (pick(24)) {
      case 0:
        if (pick(8) == 0) empty_cache();
        return;
      case 1:
        return pick(2) == 0 ? streams_.hold(pick(4)) : streams_.release(pick(4));
      case 2:
        return change_settings();
      case 3:
        return change_scope();
      case 4:
        return record_stream();
      default:
        return pick(20) < 9 ? free_one() : allocate();
    }
  }

  void empty_cache() {
    static_cast<void>(policy_.empty_cache());
    if (teller_.is_told) device_.cache_released(0, 0);
  }

  [[nodiscard]] const policy::CachingPolicy& policy() const { return policy_; }
  [[nodiscard]] NativeDevice& device() { return device_; }
  [[nodiscard]] std::uint64_t written() const {
    return maker_.made == nullptr ? 0 : maker_.made->written();
  }
  [[nodiscard]] std::string ring_path() const { return maker_.path_of(0); }

 private:
  std::uint64_t pick(std::uint64_t count) { return draw_() % count; }

  void allocate() {
    constexpr std::uint64_t kLargest[] = {4096, kMiB, 10 * kMiB, 80 * kMiB};
    const policy::StreamId stream = pick(3);
    streams_.use(stream);
    teller_.requested = 1 + pick(kLargest[pick(4)]);
    policy::Block* block = policy_.allocate(teller_.requested, stream);
    if (block != nullptr) live_.push_back(block);
  }

  void free_one() {
    if (live_.empty()) return;
    const std::size_t place = pick(live_.size());
    static_cast<void>(policy_.free(live_[place]->address));
    live_[place] = live_.back();
    live_.pop_back();
  }

  void record_stream() {
    if (live_.empty()) return;
    policy::Block& block = *live_[pick(live_.size())];
    const policy::StreamId other = pick(4);
    policy_.record_stream(block, other);
    if (teller_.is_told) device_.record_stream(block.address, other);
  }

  void change_settings() {
    policy::SizeRules& rules = options_.conf.rules;
    rules.expandable_segments = pick(2) == 0;
    std::string text =
        rules.expandable_segments ? "expandable_segments:True" : "expandable_segments:False";
    rules.max_split_size = policy::kUnlimited;
    if (pick(3) == 0) {
      const std::uint64_t size = 21 + pick(80);
      rules.max_split_size = size * kMiB;
      text += ",max_split_size_mb:" + std::to_string(size);
    }
    policy_.set_options(options_);
    device_.settings(text);
    memory_.set_outside_bytes(pick(200) * kMiB);
  }

  void change_scope() {
    if (open_.empty() || pick(2) == 0) {
      const policy::PoolId id{0, 1 + pick(3)};
      const policy::StreamId stream = pick(3);
      policy_.begin_allocate_to_pool(id,
                                     [stream](policy::StreamId asked) { return asked == stream; });
      open_.push_back(id);
      return;
    }
    policy_.end_allocate_to_pool(open_.back());
    policy_.release_pool(open_.back());
    open_.pop_back();
  }

  void take_snapshot() {
    teller_.is_due = false;
    blocks_.emplace();
    for (const policy::SegmentSnapshot& segment : policy::snapshot(policy_)) {
      std::uint64_t address = segment.address;
      for (const policy::BlockSnapshot& block : segment.blocks) {
        NativeBlock& native = blocks_->emplace_back();
        native.address = address;
        native.size = block.size;
        native.requested = block.requested_size;
        native.stream = segment.stream;
        native.pool_first = segment.pool.first;
        native.pool_second = segment.pool.second;
        native.is_first = address == segment.address;
        native.is_large = segment.size_class == policy::SizeClass::kLarge;
        native.is_expandable = segment.is_expandable;
        native.is_allocated = block.is_allocated;
        native.is_pending = block.is_active && !block.is_allocated;
        address += block.size;
      }
    }
    NativeEvent event;
    event.action = NativeAction::kSnapshot;
    event.is_keyframe = true;
    teller_.tell(event);
  }

  void hand_over() {
    device_.keyframe(*blocks_);
    blocks_.reset();
  }

  std::mt19937_64 draw_;
  policy::PolicyOptions options_;
  policy::SimulatedDevice memory_;
  policy::SimulatedStreams streams_;
  OneRing maker_;
  NativeDevice device_;
  Teller teller_;
  policy::CachingPolicy policy_;
  std::vector<policy::Block*> live_;
  std::vector<policy::PoolId> open_;
  std::optional<std::vector<NativeBlock>> blocks_;
};

}  // namespace fragscope::attach::test
