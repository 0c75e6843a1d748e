// SPDX-License-Identifier: Apache-2.0
// A random program on a policy with a recorder: hand-outs and frees on several streams, in pools,
// with and without expandable segments, held events, releases, limits and failures. The same seed
// gives the same program.
#pragma once

#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/device/simulated_device.hpp"
#include "allocator/policy/inspect/snapshot.hpp"
#include "allocator/recorder/process_recorder.hpp"
#include "allocator/recorder/timed_memory.hpp"
#include "trace/check.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace fragscope::recorder::test {

using policy::kMiB;

/// What a test wants of the ring.
struct RingSize {
  std::uint64_t records = std::uint64_t{1} << 14;
  std::uint64_t table_bytes = std::uint64_t{1} << 16;
};

inline RecorderOptions recorder_options(const std::string& directory,
                                        RingSize size = {},
                                        const std::string& conf = "expandable_segments:False") {
  RecorderOptions options;
  options.directory = directory;
  options.record_capacity = size.records;
  options.conf = conf;
  options.table_bytes = size.table_bytes;
  options.command = "python train.py";
  options.library_version = "0.0";
  options.torch_version = "2.15";
  return options;
}

class RecordedProgram {
 public:
  /// The ring lies in `directory`. `tells_settings`: changes of the options are recorded.
  RecordedProgram(std::uint32_t seed,
                  const std::string& directory,
                  RingSize size = {},
                  bool tells_settings = false)
      : draw_(seed)
      , tells_settings_(tells_settings)
      , max_split_mb_(20 + pick(240))
      , conf_(some_conf())
      , options_(options_of(conf_))
      , device_((256 + pick(1024)) * kMiB)
      , recorders_(recorder_options(directory, size, conf_))
      , recorder_(recorders_.of({0, {}, "Simulated", device_.capacity().total_bytes}))
      , timed_device_(device_, recorder_)
      , policy_(timed_device_, streams_, options_, recorder_) {
    if (recorder_ != nullptr) recorder_->watch(&policy_);
  }

  void step() {
    set_stack();
    switch (pick(24)) {
      case 0:
        if (pick(8) == 0) static_cast<void>(policy_.empty_cache());
        return;
      case 1:
        return pick(2) == 0 ? streams_.hold(pick(4)) : streams_.release(pick(4));
      case 2:
        return change_settings();
      case 3:
        return change_scope();
      case 4:
      case 5:
        if (!live_.empty()) policy_.record_stream(*live_[pick(live_.size())], pick(4));
        return;
      case 6:
      case 7:
      case 8:
      case 9:
      case 10:
      case 11:
      case 12:
        return free_one();
      default:
        return allocate(some_size());
    }
  }

  void run(std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps; ++i)
      step();
  }

  void allocate(std::uint64_t bytes) {
    const policy::StreamId stream = pick(3);
    streams_.use(stream);
    if (policy::Block* block = policy_.allocate(bytes, stream)) live_.push_back(block);
  }

  [[nodiscard]] policy::CachingPolicy& policy() { return policy_; }
  [[nodiscard]] policy::SimulatedDevice& device() { return device_; }
  [[nodiscard]] DeviceRecorder* recorder() { return recorder_; }
  [[nodiscard]] ProcessRecorder& recorders() { return recorders_; }
  [[nodiscard]] std::string ring_path() const { return recorders_.ring_path(0); }

 private:
  std::uint64_t pick(std::uint64_t count) { return draw_() % count; }

  /// Below 100 MiB oversize rules are in force.
  std::string some_conf() {
    std::string conf = pick(2) == 0 ? "expandable_segments:True" : "expandable_segments:False";
    if (max_split_mb_ < 100) conf += ",max_split_size_mb:" + std::to_string(max_split_mb_);
    return conf;
  }

  static policy::PolicyOptions options_of(const std::string& conf) {
    policy::PolicyOptions options;
    const auto error = policy::apply_conf(conf, options.version, options.conf);
    FRAGSCOPE_CHECK(!error);
    return options;
  }

  std::uint64_t some_size() {
    constexpr std::uint64_t kLargest[] = {4096, kMiB, 10 * kMiB, 80 * kMiB};
    return 1 + pick(kLargest[pick(4)]);
  }

  void set_stack() {
    if (recorder_ == nullptr) return;
    const auto line = static_cast<std::uint32_t>(1 + pick(40));
    const FrameText frames[] = {{"step", "train.py", line}, {"main", "train.py", 7}};
    recorder_->set_stack(recorder_->intern_stack(frames));
  }

  void free_one() {
    if (live_.empty()) return;
    const std::size_t place = pick(live_.size());
    static_cast<void>(policy_.free(live_[place]->address));
    live_[place] = live_.back();
    live_.pop_back();
  }

  void change_settings() {
    conf_ = some_conf();
    options_ = options_of(conf_);
    policy_.set_options(options_);
    if (tells_settings_ && recorder_ != nullptr) recorder_->settings(conf_);
    const bool is_limited = pick(2) == 0;
    policy_.set_limit(is_limited ? std::optional((128 + pick(512)) * kMiB) : std::nullopt);
    device_.set_outside_bytes(pick(200) * kMiB);
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

  std::mt19937_64 draw_;
  bool tells_settings_;
  std::uint64_t max_split_mb_;
  std::string conf_;
  policy::PolicyOptions options_;
  policy::SimulatedDevice device_;
  policy::SimulatedStreams streams_;
  ProcessRecorder recorders_;
  DeviceRecorder* recorder_;
  TimedMemory timed_device_;
  policy::CachingPolicy policy_;
  std::vector<policy::Block*> live_;
  std::vector<policy::PoolId> open_;
};

}  // namespace fragscope::recorder::test
