// SPDX-License-Identifier: Apache-2.0
// Built by build_native.py against the PyTorch it will run with (2.6 and 2.15 are tried), not by
// CMake: there may be none when the project is configured.
#include "tests/fidelity/native/native_allocator.hpp"

#include <cuda_runtime_api.h>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Logging.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#include <torch/version.h>

namespace fragscope::fidelity {
namespace {

namespace native = c10::cuda::CUDACachingAllocator;
using c10::cuda::CUDAStream;
#if TORCH_VERSION_MINOR >= 15
namespace counters = c10::CachingAllocator;
using c10::MempoolId_t;
#else
namespace counters = c10::CachingDeviceAllocator;
using c10::cuda::MempoolId_t;
#endif

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

/// A control function of virtual CUDA; without them there is nothing to compare.
template <class Function>
Function control(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {
    std::cerr << "native_allocator: " << name << " is missing: run this under virtual_cuda/run\n";
    std::exit(2);
  }
  return reinterpret_cast<Function>(found);
}

MempoolId_t id_of(PoolKey pool) {
  return {pool.first, pool.second};
}

void append(const counters::Stat& stat, std::vector<std::int64_t>& values) {
  values.insert(values.end(), {stat.current, stat.peak, stat.allocated, stat.freed});
}

void append(const counters::StatArray& array, std::vector<std::int64_t>& values) {
  using counters::StatType;
  for (const StatType type : {StatType::AGGREGATE, StatType::SMALL_POOL, StatType::LARGE_POOL})
    append(array[static_cast<std::size_t>(type)], values);
}

class TorchAllocator final : public NativeAllocator {
 public:
  TorchAllocator() {
    c10::initLogging();
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // As torch.cuda.init() does.
    streams_.push_back(c10::cuda::getDefaultCUDAStream(kDevice));
    void* first = native::raw_alloc(512);  // Makes the context, which takes its memory.
    native::raw_delete(first);
    static_cast<void>(empty_cache());
    native::resetAccumulatedStats(kDevice);
    native::resetPeakStats(kDevice);
  }

  const char* version() const override { return TORCH_VERSION; }
  const char* error_type() const override { return error_type_.c_str(); }
  const char* error_text() const override { return error_text_.c_str(); }

  std::uint64_t stream_handle(unsigned stream) override {
    return reinterpret_cast<std::uint64_t>(stream_of(stream).stream());
  }

  void use_stream(unsigned stream) override { c10::cuda::setCurrentCUDAStream(stream_of(stream)); }
  std::uint64_t allocate(std::uint64_t bytes, unsigned stream) override {
    std::uint64_t address = 0;
    attempt([&] {
      c10::cuda::setCurrentCUDAStream(stream_of(stream));
      auto pointer = native::get()->allocate(bytes);
      address = reinterpret_cast<std::uint64_t>(pointer.get());
      pointer.release_context();
    });
    return address;
  }
  std::uint64_t allocate_at([[maybe_unused]] std::uint64_t bytes,
                            [[maybe_unused]] unsigned stream,
                            std::uint64_t address) override {
    const bool is_done = attempt([&] {
#if TORCH_VERSION_MINOR >= 15
      c10::cuda::setCurrentCUDAStream(stream_of(stream));
      auto pointer = native::allocateWithAddress(bytes, reinterpret_cast<void*>(address));
      TORCH_CHECK(pointer.get() == reinterpret_cast<void*>(address), "another address");
      pointer.release_context();
#else
      TORCH_CHECK(false, "2.6 has no requests for an address");
#endif
    });
    return is_done ? address : 0;
  }
  bool free(std::uint64_t address) override {
    return attempt([&] { native::raw_delete(reinterpret_cast<void*>(address)); });
  }
  bool record_stream(std::uint64_t address, unsigned stream) override {
    return attempt([&] {
      auto* pointer = reinterpret_cast<void*>(address);
      c10::DataPtr data(pointer,
                        pointer,
                        native::get()->raw_deleter(),
                        c10::Device(c10::DeviceType::CUDA, kDevice));
      native::recordStream(data, stream_of(stream));
      data.release_context();
    });
  }
  bool empty_cache() override {
    return attempt([] { native::emptyCache(); });
  }
  bool set_fraction(double fraction) override {
    return attempt([&] { native::setMemoryFraction(fraction, kDevice); });
  }
  double fraction() override {
    return native::get()->getMemoryFraction(kDevice);
  }
  bool apply_conf(const char* text) override {
    return attempt([&] { native::setAllocatorSettings(text); });
  }
  void reset_peaks() override {
    native::resetPeakStats(kDevice);
  }
  void reset_accumulated() override {
    native::resetAccumulatedStats(kDevice);
  }

  bool create_pool(PoolKey pool, PoolSource source) override {
    return attempt([&] {
#if TORCH_VERSION_MINOR >= 15
      std::shared_ptr<native::CUDAAllocator> custom;
      if (source == PoolSource::kCustomAllocator) custom = custom_allocator();
      native::createOrIncrefPool(kDevice, id_of(pool), custom);
#else
      TORCH_CHECK(source == PoolSource::kDevice, "2.6 has no pools with an allocator of their own");
      native::get()->ensureExistsAndIncrefPool(kDevice, id_of(pool));
#endif
    });
  }
  bool begin_pool(PoolKey pool, unsigned stream) override {
    return attempt([&] {
      const bool any = stream == ~0U;
      const cudaStream_t only = any ? nullptr : stream_of(stream).stream();
      native::beginAllocateToPool(
          kDevice, id_of(pool), [any, only](cudaStream_t asking) { return any || asking == only; });
    });
  }
  bool end_pool(PoolKey pool) override {
    return attempt([&] { native::get()->endAllocateToPool(kDevice, id_of(pool)); });
  }
  bool release_pool(PoolKey pool) override {
    return attempt([&] { native::get()->releasePool(kDevice, id_of(pool)); });
  }
  bool set_use_on_oom([[maybe_unused]] PoolKey pool, [[maybe_unused]] bool use) override {
#if TORCH_VERSION_MINOR >= 15
    return attempt([&] { native::setUseOnOOM(kDevice, id_of(pool), use); });
#else
    return false;
#endif
  }
  bool set_no_split([[maybe_unused]] PoolKey pool) override {
#if TORCH_VERSION_MINOR >= 15
    return attempt([&] { native::setNoSplit(kDevice, id_of(pool)); });
#else
    return false;
#endif
  }

  bool begin_capture(PoolKey pool, unsigned stream) override {
    return attempt([&] {
      capturing_ = {stream_of(stream).stream()};
      capture_pool_ = pool;
      capture_first_ = stream;
      native::beginAllocateToPool(kDevice, id_of(pool), [this](cudaStream_t asking) {
        return capturing_.count(asking) > 0;
      });
#if TORCH_VERSION_MINOR >= 15
      native::markCaptureBegin(kDevice);
#endif
      // Relaxed, so that requests on other streams may go to the device meanwhile.
      check(cudaStreamBeginCapture(stream_of(stream).stream(), cudaStreamCaptureModeRelaxed));
    });
  }
  bool join_capture(unsigned stream, unsigned joining) override {
    return attempt([&] {
      wait_for(stream, joining);
      capturing_.insert(stream_of(joining).stream());
      joined_.push_back(joining);
    });
  }
  bool capture_work(unsigned stream) override {
    return attempt([&] {
      check(cudaLaunchHostFunc(
          stream_of(stream).stream(), [](void*) {}, nullptr));
    });
  }
  bool end_capture() override {
    return attempt([&] {
      for (const unsigned stream : std::exchange(joined_, {}))
        wait_for(stream, capture_first_);
      cudaGraph_t graph = nullptr;
      check(cudaStreamEndCapture(stream_of(capture_first_).stream(), &graph));
      native::get()->endAllocateToPool(kDevice, id_of(capture_pool_));
#if TORCH_VERSION_MINOR >= 15
      native::markCaptureEnd(kDevice);
#endif
      capturing_.clear();
      check(cudaGraphDestroy(graph));
    });
  }

  void hold_stream(unsigned stream) override {
    hold_(stream_of(stream).stream());
  }
  void release_stream(unsigned stream) override {
    release_(stream_of(stream).stream());
  }
  void set_neighbour(std::uint64_t bytes) override {
    set_neighbour_(kDevice, bytes);
  }
  void fail(const char* kind, std::uint64_t nth, bool onward) override {
    clear_faults_(kind);
    fail_(kind, nth, onward ? 1 : 0);
  }
  void clear_faults() override {
    for (const char* kind : {"malloc", "create", "reserve", "map", "access", "nvml"})
      clear_faults_(kind);
  }
  std::uint64_t device_allocate(std::uint64_t bytes) override {
    void* pointer = nullptr;
    if (cudaMalloc(&pointer, bytes) == cudaSuccess) return reinterpret_cast<std::uint64_t>(pointer);
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  void device_free(std::uint64_t address) override {
    static_cast<void>(cudaFree(reinterpret_cast<void*>(address)));
  }
  void tag_stream([[maybe_unused]] unsigned stream,
                  [[maybe_unused]] const char* reserve_class) override {
#if TORCH_VERSION_MINOR >= 15
    native::setExpandableSegmentReserveClassForStream(stream_of(stream).stream(), reserve_class);
#endif
  }

  std::uint64_t device_total() override {
    return memory().second;
  }
  std::uint64_t device_free_bytes() override {
    return memory().first;
  }

  StatisticsState statistics() override {
    const auto stats = native::getDeviceStats(kDevice);
    values_.clear();
    for (const auto* array : {&stats.allocation,
                              &stats.allocated_bytes,
                              &stats.active,
                              &stats.active_bytes,
                              &stats.requested_bytes,
                              &stats.segment,
                              &stats.reserved_bytes,
                              &stats.inactive_split,
                              &stats.inactive_split_bytes}) {
      append(*array, values_);
    }
    append(stats.oversize_allocations, values_);
    append(stats.oversize_segments, values_);
    values_.insert(values_.end(),
                   {stats.num_alloc_retries,
                    stats.num_ooms,
                    stats.num_sync_all_streams,
                    stats.num_device_alloc,
                    stats.num_device_free});
    by_pool_.clear();
#if TORCH_VERSION_MINOR >= 15
    values_.push_back(stats.num_oom_rejections);
    for (const auto& [id, array] : stats.reserved_bytes_by_private_pools) {
      PoolReserved& pool = by_pool_.emplace_back();
      pool.pool = {id.first, id.second};
      std::vector<std::int64_t> counters;
      append(array, counters);
      std::copy(counters.begin(), counters.end(), pool.counters);
    }
    std::sort(by_pool_.begin(), by_pool_.end(), [](const auto& a, const auto& b) {
      return a.pool < b.pool;
    });
#else
    values_.push_back(0);
#endif
    return {values_, by_pool_};
  }

  HeapState snapshot() override {
    auto taken = take_snapshot();
    segments_.clear();
    blocks_.clear();
    for (const auto& segment : taken.segments) {
      SegmentState& state = segments_.emplace_back();
      state.address = segment.address;
      state.total_size = segment.total_size;
      state.requested_size = segment.requested_size;
      state.allocated_size = segment.allocated_size;
      state.active_size = segment.active_size;
      state.stream = reinterpret_cast<std::uint64_t>(segment.stream);
      state.pool = {segment.owner_private_pool_id.first, segment.owner_private_pool_id.second};
      state.is_large = segment.is_large;
      state.is_expandable = segment.is_expandable;
      state.first_block = static_cast<std::uint32_t>(blocks_.size());
      state.block_count = static_cast<std::uint32_t>(segment.blocks.size());
      for (const auto& block : segment.blocks)
        blocks_.push_back({block.size, block.requested_size, block.allocated, block.active});
    }
    return {segments_, blocks_};
  }

  void start_events() override {
    native::get()->attachAllocatorTraceTracker(
        [this](const native::TraceEntry& entry) { note(entry); });
  }
  std::span<const TraceEvent> take_events() override {
    taken_.swap(events_);
    events_.clear();
    return taken_;
  }

  std::uint64_t time(std::span<const TimedStep> steps) override {
    c10::cuda::setCurrentCUDAStream(streams_.front());
    const auto start = std::chrono::steady_clock::now();
    for (const TimedStep& step : steps) {
      void*& pointer = timed_[step.slot];
      if (pointer != nullptr) {
        native::raw_delete(std::exchange(pointer, nullptr));
      } else {
        pointer = native::raw_alloc(step.bytes);
      }
    }
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  }

 private:
  static constexpr c10::DeviceIndex kDevice = 0;

  /// Keeps what `action` throws. The order of the handlers is that of PyTorch's Python layer.
  template <class What>
  bool attempt(What action) {
    try {
      action();
      return true;
    } catch (const c10::OutOfMemoryError& error) {
      return keep("OutOfMemoryError", error.what_without_backtrace());
    } catch (const c10::ValueError& error) {
      return keep("ValueError", error.what_without_backtrace());
    } catch (const c10::Error& error) {
      return keep("RuntimeError", error.what_without_backtrace());
    } catch (const std::exception& error) {
      return keep("RuntimeError", error.what());
    }
  }
  bool keep(const char* type, const char* text) {
    error_type_ = type;
    error_text_ = text;
    return false;
  }

  CUDAStream stream_of(unsigned number) {
    while (streams_.size() <= number) {
      cudaStream_t made = nullptr;
      check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
      streams_.push_back(c10::cuda::getStreamFromExternal(made, kDevice));
    }
    return streams_[number];
  }

  /// What is put on `waiting` from now on waits for what is on `stream` now.
  void wait_for(unsigned stream, unsigned waiting) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    check(cudaEventRecord(event, stream_of(stream).stream()));
    check(cudaStreamWaitEvent(stream_of(waiting).stream(), event, 0));
    check(cudaEventDestroy(event));
  }

#if TORCH_VERSION_MINOR >= 15
  static std::shared_ptr<native::CUDAAllocator> custom_allocator() {
    return torch::cuda::CUDAPluggableAllocator::createCustomAllocator(
        [](std::size_t size, int, cudaStream_t) {
          void* pointer = nullptr;
          if (cudaMalloc(&pointer, size) != cudaSuccess) {
            static_cast<void>(cudaGetLastError());
            return static_cast<void*>(nullptr);
          }
          return pointer;
        },
        [](void* pointer, std::size_t, int, cudaStream_t) {
          static_cast<void>(cudaFree(pointer));
        });
  }
#endif

  static std::pair<std::uint64_t, std::uint64_t> memory() {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total));
    return {free, total};
  }

  native::SnapshotInfo take_snapshot() {
    const std::size_t traced = events_.size();
#if TORCH_VERSION_MINOR >= 15
    auto taken = native::snapshot({0, 0}, false);
#else
    auto taken = native::get()->snapshot();
#endif
    events_.resize(traced);  // That there was a snapshot is no event of the program.
    return taken;
  }

  void note(const native::TraceEntry& entry) {
    TraceEvent event;
    event.action = static_cast<Action>(entry.action_);
    event.address = static_cast<std::uint64_t>(entry.addr_);
    event.size = entry.size_;
    event.stream = reinterpret_cast<std::uint64_t>(entry.stream_);
#if TORCH_VERSION_MINOR >= 15
    event.pool = {entry.mempool_.first, entry.mempool_.second};
#endif
    events_.push_back(event);
  }

  std::vector<CUDAStream> streams_;
  std::vector<TraceEvent> events_;
  std::vector<TraceEvent> taken_;
  std::vector<SegmentState> segments_;
  std::vector<BlockState> blocks_;
  std::vector<std::int64_t> values_;
  std::vector<PoolReserved> by_pool_;
  std::vector<void*> timed_ = std::vector<void*>(kTimedSlots);
  std::string error_type_;
  std::string error_text_;

  PoolKey capture_pool_;
  unsigned capture_first_ = 0;
  std::set<cudaStream_t> capturing_;
  std::vector<unsigned> joined_;

  int (*hold_)(void*) = control<int (*)(void*)>("fragscope_vc_hold_stream");
  int (*release_)(void*) = control<int (*)(void*)>("fragscope_vc_release_stream");
  int (*set_neighbour_)(int, unsigned long long) =
      control<int (*)(int, unsigned long long)>("fragscope_vc_set_neighbour");
  int (*fail_)(const char*,
               unsigned long long,
               int) = control<int (*)(const char*, unsigned long long, int)>("fragscope_vc_fail");
  int (*clear_faults_)(const char*) = control<int (*)(const char*)>("fragscope_vc_clear_faults");
};

}  // namespace
}  // namespace fragscope::fidelity

extern "C" fragscope::fidelity::NativeAllocator* fragscope_make_native_allocator() {
  try {
    static fragscope::fidelity::TorchAllocator allocator;
    return &allocator;
  } catch (const std::exception& error) {
    std::cerr << "native_allocator: " << error.what() << '\n';
    return nullptr;
  }
}
