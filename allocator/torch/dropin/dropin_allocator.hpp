// SPDX-License-Identifier: Apache-2.0
// Our allocator in the place of PyTorch's own: the same rules, answers and exceptions. What has
// nothing to do with the blocks (uncached memory, opening another process's memory, copying) is
// still done by the native one.
#pragma once

#include "allocator/engine/engine.hpp"
#include "allocator/torch/dropin/annotations.hpp"
#include "allocator/torch/dropin/history.hpp"
#include "allocator/torch/dropin/torch_settings.hpp"
#include "allocator/torch/forwarding_allocator.hpp"
#include "allocator/torch/torch_names.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace fragscope::shim {

/// Thread-safe. Never destroyed.
class DropinAllocator final : public ForwardingAllocator {
 public:
  static constexpr int kMostDevices = 64;

  DropinAllocator(CUDAAllocator& native, engine::Engine& engine);

  // Handing out and taking back.
  DataPtr allocate(size_t size) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void* raw_alloc(size_t size) override;
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override;
  void raw_delete(void* pointer) override;
  void recordStream(const DataPtr& data, CUDAStream stream) override;
  void enable(bool value) override;
  bool isEnabled() const override { return is_enabled_; }
  std::string name() override { return "fragscope"; }

  // The state of a device.
  void init(int device_count) override;
  bool initialized() override { return device_count_ > 0; }
  double getMemoryFraction(DeviceIndex device) override;
  void setMemoryFraction(double fraction, DeviceIndex device) override;
  void cacheInfo(DeviceIndex device, size_t* largest) override;
  void* getBaseAllocation(void* pointer, size_t* size) override;
  caching::ShareableHandle shareIpcHandle(void* pointer) override;
  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override;
  cudaError_t memcpyAsync(void* to,
                          int to_device,
                          const void* from,
                          int from_device,
                          size_t size,
                          cudaStream_t stream,
                          bool is_peer_enabled) override;

  // Statistics, snapshots and history (dropin_reports.cpp).
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override;
  void resetAccumulatedStats(DeviceIndex device) override;
  void resetPeakStats(DeviceIndex device) override;
  bool isHistoryEnabled() override;
  void recordAnnotation(
      const std::vector<std::pair<std::string, std::string>>& annotation) override;
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override;

  // Private pools (dropin_pools.cpp).
  void beginAllocateToPool(DeviceIndex device,
                           MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override;
  void releasePool(DeviceIndex device, MempoolId_t pool) override;
  int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override;
  bool checkPoolLiveAllocations(DeviceIndex device,
                                MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override;
  std::shared_ptr<caching::AllocatorState> getCheckpointState(DeviceIndex device,
                                                              MempoolId_t pool) override;
  caching::CheckpointDelta setCheckpointPoolState(
      DeviceIndex device, std::shared_ptr<caching::AllocatorState> state) override;

#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  DataPtr allocateWithAddress(size_t size, void* address) override;
  void emptyCache(MempoolId_t pool) override {
    empty_cache(pool);
  }
  SnapshotInfo snapshot(MempoolId_t pool, bool with_traces) override;
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override;
  void markCaptureBegin(DeviceIndex device) override {
    used(device).begin_capture();
  }
  void markCaptureEnd(DeviceIndex device) override {
    used(device).end_capture();
  }
  void createOrIncrefPool(DeviceIndex device,
                          MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override;
  void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool is_used) override;
  void setNoSplit(DeviceIndex device, MempoolId_t pool) override;
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* pointer) override;
  void recordHistory(bool is_enabled,
                     CreateContextFn context,
                     size_t most_entries,
                     RecordContext when,
                     bool is_cleared,
                     const std::vector<std::string>& skipped) override;
  void pushCompileContext(std::string& text) override;
  void popCompileContext() override;
  bool supportsUserMetadata() override {
    return true;
  }
  void setUserMetadata(const std::string& text) override {
    set_user_metadata(text);
  }
  std::string getUserMetadata() override {
    return user_metadata();
  }
  void annotateMemory(const void* pointer, const std::string& text) override;
  void attachOomRejectionObserver(caching::OomRejectionObserver observer) override;
#else
  void emptyCache() override {
    empty_cache(pool_to_empty());
  }
  SnapshotInfo snapshot() override;
  void ensureExistsAndIncrefPool(DeviceIndex device, MempoolId_t pool) override;
  void recordHistory(bool is_enabled,
                     CreateContextFn context,
                     size_t most_entries,
                     RecordContext when) override;
#endif

 private:
  struct Owned {
    engine::Device* device = nullptr;
    DeviceIndex ordinal = 0;
  };

  /// The device, opened if it was not in use yet. Throws: not initialised for it, or unusable.
  [[nodiscard]] engine::Device& used(DeviceIndex device);
  [[nodiscard]] engine::Device& open(DeviceIndex device);
  [[nodiscard]] History& history(DeviceIndex device) const {
    return *histories_[static_cast<std::size_t>(device)];
  }
  void check(DeviceIndex device) const;
  /// Does `action` with each open device, and its ordinal.
  template <class Do>
  void each_open(Do action) {
    for (DeviceIndex device = 0; device < device_count_; ++device) {
      engine::Device* open = opened(device);
      if (open != nullptr) action(*open, device);
    }
  }
  /// Null if it was not in use yet.
  [[nodiscard]] engine::Device* opened(DeviceIndex device) const {
    return devices_[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
  }
  /// The device and the block that was handed out at this address; none if it was not here.
  [[nodiscard]] std::optional<std::pair<Owned, engine::HandedOut>> find(const void* pointer);

  [[nodiscard]] void* take(DeviceIndex device, size_t size, cudaStream_t stream);
  [[noreturn]] void refuse(DeviceIndex device, size_t size, const engine::Refusal& refusal);
  /// What every deleter comes to. False if it was not handed out here.
  bool give_back(void* pointer);
  static void delete_block(void* pointer);
  /// To the profiler and the traces of GPU calls, where there are any.
  void report_hand_out(DeviceIndex device, void* pointer);
  void report_to_profiler(DeviceIndex device, void* pointer, std::int64_t bytes);
  void take_settings();
  void empty_cache(MempoolId_t pool);
  void begin_listening(DeviceIndex device);
  void request_history(const HistoryRequest& request);
  void fill(SnapshotInfo& info, MempoolId_t pool, bool with_traces);

  engine::Engine& engine_;
  TorchSettings settings_;
  std::array<std::atomic<engine::Device*>, kMostDevices> devices_{};
  std::array<std::unique_ptr<History>, kMostDevices> histories_;
  /// What PyTorch counts of an emptied cache of a device that was never used: opening it for that
  /// would cost a context.
  std::array<std::atomic<std::int64_t>, kMostDevices> early_syncs_{};
  std::atomic<int> device_count_ = 0;
  std::atomic<int> only_device_ = -1;    ///< That is open; -1: none or several are.
  std::atomic<bool> is_enabled_ = true;  ///< caching_allocator_enable
  std::atomic<bool> is_caching_;         ///< Enabled, and not forbidden by the environment.
  std::mutex mutex_;                     // of what follows, and of opening a device
  std::array<std::optional<double>, kMostDevices> early_fractions_;  ///< Of devices not in use yet.
  int open_count_ = 0;
  std::vector<caching::OutOfMemoryObserver> out_of_memory_observers_;
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  std::vector<caching::OomRejectionObserver> rejection_observers_;
#endif
  c10::ApproximateClockToUnixTimeConverter clock_;
  Annotations annotations_;
};

/// Puts it in. Null, or in one line why not. `library` is the path of libfragscope_alloc.so.
[[nodiscard]] const char* drop_in(const char* library);

}  // namespace fragscope::shim
