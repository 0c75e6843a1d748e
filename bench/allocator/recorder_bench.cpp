// SPDX-License-Identifier: Apache-2.0
// What recording adds to the allocator: a block of 4 KiB taken and given back, which is six
// records, on a policy that nobody listens to, one that is recorded, and one whose recording was
// stopped. The cost of the records is the difference; `records` says how many a pair makes.
#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/device/simulated_device.hpp"
#include "allocator/recorder/process_recorder.hpp"

#include <benchmark/benchmark.h>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using namespace fragscope;

enum class Listener { kNone, kRecording, kStopped };

/// A heap in which a pair splits and merges: every second block of a hundred is held.
class Heap {
 public:
  explicit Heap(Listener listener)
      : directory_("/dev/shm/fragscope_recorder_bench_" + std::to_string(getpid()))
      , recorders_(options(directory_))
      , recorder_(listener == Listener::kNone ? nullptr : recorders_.of({}))
      , policy_(device_, streams_, {}, recorder_) {
    if (recorder_ != nullptr) recorder_->watch(&policy_);
    for (int i = 0; i < 100; ++i)
      blocks_.push_back(policy_.allocate(4096, 0));
    for (std::size_t i = 0; i < blocks_.size(); i += 2)
      static_cast<void>(policy_.free(blocks_[i]->address));
    if (listener == Listener::kStopped && recorder_ != nullptr) recorder_->stop("as asked");
  }
  ~Heap() { std::filesystem::remove_all(directory_); }
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  [[nodiscard]] policy::CachingPolicy& policy() { return policy_; }
  [[nodiscard]] std::uint64_t written() const {
    return recorder_ == nullptr ? 0 : recorder_->header().written;
  }
  [[nodiscard]] bool is_as_asked(Listener listener) const {
    return (listener == Listener::kNone) == (recorder_ == nullptr);
  }

 private:
  static recorder::RecorderOptions options(const std::string& directory) {
    std::filesystem::create_directories(directory);
    recorder::RecorderOptions options;
    options.directory = directory;
    options.record_capacity = std::uint64_t{1} << 16;
    return options;
  }

  std::string directory_;
  policy::SimulatedDevice device_{std::uint64_t{1} << 30};
  policy::SimulatedStreams streams_;
  recorder::ProcessRecorder recorders_;
  recorder::DeviceRecorder* recorder_;
  policy::CachingPolicy policy_;
  std::vector<policy::Block*> blocks_;
};

void pair(benchmark::State& state, Listener listener) {
  Heap heap(listener);
  if (!heap.is_as_asked(listener)) return state.SkipWithError("no ring");
  const std::uint64_t before = heap.written();
  for (auto _ : state) {
    const policy::Block* block = heap.policy().allocate(3072, 0);
    if (!heap.policy().free(block->address)) return state.SkipWithError("the block is not known");
  }
  const std::uint64_t records = heap.written() - before;
  const auto pairs = static_cast<std::uint64_t>(state.iterations());
  state.counters["records"] = static_cast<double>(records) / static_cast<double>(pairs);
  const bool is_right = listener == Listener::kRecording ? records >= 3 * pairs : records == 0;
  if (!is_right) state.SkipWithError("records are missing, or were made");
}

BENCHMARK_CAPTURE(pair, nobody_listens, Listener::kNone);
BENCHMARK_CAPTURE(pair, recorded, Listener::kRecording);
BENCHMARK_CAPTURE(pair, stopped, Listener::kStopped);

}  // namespace
