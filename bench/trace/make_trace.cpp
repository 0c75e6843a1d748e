// SPDX-License-Identifier: Apache-2.0
// Writes a trace of about N records: a training loop on a simulated device of 24 GiB, recorded as a
// job would be and drained while it runs. 1,500 tensors stay; an iteration takes 400 activations,
// gives them back in the opposite order, and uses a few on a second stream. The last request fails.
// The input of trace_bench; the same N gives the same trace but for times.
//
//   make_trace FILE --events N
#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/device/simulated_device.hpp"
#include "allocator/recorder/process_recorder.hpp"
#include "trace/file/drain.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string_view>
#include <vector>

namespace {

using namespace fragscope;
using policy::kMiB;

class TrainingLoop {
 public:
  explicit TrainingLoop(const std::string& directory)
      : recorders_(options(directory))
      , recorder_(recorders_.of({0, {}, "Simulated", device_.capacity().total_bytes}))
      , policy_(device_, streams_, {}, recorder_) {
    if (recorder_ == nullptr) return;
    recorder_->watch(&policy_);
    for (int i = 0; i < 1500; ++i)
      take(weights_, 7);
  }

  [[nodiscard]] bool is_recorded() const { return recorder_ != nullptr; }
  [[nodiscard]] std::uint64_t written() const { return recorder_->header().written; }
  [[nodiscard]] std::string ring_path() const { return recorders_.ring_path(0); }

  void iterate() {
    for (int i = 0; i < 400; ++i)
      take(activations_, static_cast<std::uint32_t>(10 + i % 60));
    for (std::size_t i = 0; i < activations_.size(); i += 40)
      policy_.record_stream(*activations_[i], 1);
    while (!activations_.empty()) {
      static_cast<void>(policy_.free(activations_.back()->address));
      activations_.pop_back();
    }
  }

  void fail() { static_cast<void>(policy_.allocate(std::uint64_t{64} << 30, 0)); }

 private:
  static recorder::RecorderOptions options(const std::string& directory) {
    recorder::RecorderOptions options;
    options.directory = directory;
    options.record_capacity = std::uint64_t{1} << 17;
    return options;
  }

  void take(std::vector<policy::Block*>& into, std::uint32_t line) {
    const recorder::FrameText frames[] = {{"forward", "model.py", line}, {"main", "train.py", 3}};
    recorder_->set_stack(recorder_->intern_stack(frames));
    const std::uint64_t bytes = draw_() % 4 == 0 ? 1 + draw_() % (4 * kMiB) : 1 + draw_() % kMiB;
    if (policy::Block* block = policy_.allocate(bytes, 0)) into.push_back(block);
  }

  std::mt19937_64 draw_{1};
  policy::SimulatedDevice device_{std::uint64_t{24} << 30};
  policy::SimulatedStreams streams_;
  recorder::ProcessRecorder recorders_;
  recorder::DeviceRecorder* recorder_;
  policy::CachingPolicy policy_;
  std::vector<policy::Block*> weights_;
  std::vector<policy::Block*> activations_;
};

int make(const char* path, std::uint64_t events) {
  const std::string directory = std::string(path) + ".rings";
  std::filesystem::create_directories(directory);
  TrainingLoop loop(directory);
  auto ring = trace::RingFile::open(loop.ring_path());
  std::FILE* file = std::fopen(path, "wb");
  if (!loop.is_recorded() || !ring || file == nullptr) return 1;
  auto drain =
      trace::Drain::begin(ring->bytes(),
                          trace::ChunkCodec::kPlain,
                          [file](std::span<const std::byte> bytes) -> Result<void> {
                            if (std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size())
                              return {};
                            return failure(ErrorCode::kUnreadable, "cannot be written");
                          });
  if (!drain) return 1;
  while (loop.written() < events) {
    loop.iterate();
    if (!drain->pump()) return 1;
  }
  loop.fail();
  const bool is_whole = drain->finish(false) && drain->counts().overwritten == 0;
  std::filesystem::remove_all(directory);
  return std::fclose(file) == 0 && is_whole ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || std::string_view(argv[2]) != "--events") return 2;
  return make(argv[1], std::strtoull(argv[3], nullptr, 10));
}
