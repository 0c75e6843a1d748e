// SPDX-License-Identifier: Apache-2.0
// An allocator of PyTorch's kind that hands every call on to another one, so that a class derived
// from it only writes what it wants to see or to change. Blocks keep the other one's deleter: it is
// what record_stream and the trees of CUDA graphs recognise a block by.
#pragma once

#include "allocator/torch/torch_names.hpp"

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace fragscope::shim {

/// Thread-safe as the native one is.
class ForwardingAllocator : public CUDAAllocator {
 public:
  /// `native` is never destroyed, as PyTorch's own is not.
  explicit ForwardingAllocator(CUDAAllocator& native)
      : native_(native) {}

  [[nodiscard]] CUDAAllocator& native() const { return native_; }

  // c10::Allocator
  DataPtr allocate(size_t size) override { return native_.allocate(size); }
  c10::DeleterFnPtr raw_deleter() const override { return native_.raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    native_.copy_data(to, from, size);
  }
  bool is_simple_data_ptr(const DataPtr& data) const override {
    return native_.is_simple_data_ptr(data);
  }

  // CUDAAllocator, in the order of its header.
  void* raw_alloc(size_t size) override { return native_.raw_alloc(size); }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    return native_.raw_alloc_with_stream(size, stream);
  }
  void raw_delete(void* pointer) override { native_.raw_delete(pointer); }
  void init(int device_count) override { native_.init(device_count); }
  bool initialized() override { return native_.initialized(); }
  double getMemoryFraction(DeviceIndex device) override {
    return native_.getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    native_.setMemoryFraction(fraction, device);
  }
  void enable(bool value) override { native_.enable(value); }
  bool isEnabled() const override { return native_.isEnabled(); }
  void cacheInfo(DeviceIndex device, size_t* largest) override {
    native_.cacheInfo(device, largest);
  }
  void* getBaseAllocation(void* pointer, size_t* size) override {
    return native_.getBaseAllocation(pointer, size);
  }
  void recordStream(const DataPtr& data, CUDAStream stream) override {
    native_.recordStream(data, stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    return native_.getDeviceStats(device);
  }
  void resetAccumulatedStats(DeviceIndex device) override { native_.resetAccumulatedStats(device); }
  void resetPeakStats(DeviceIndex device) override { native_.resetPeakStats(device); }
  void beginAllocateToPool(DeviceIndex device,
                           MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    native_.beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
    native_.endAllocateToPool(device, pool);
  }
  void releasePool(DeviceIndex device, MempoolId_t pool) override {
    native_.releasePool(device, pool);
  }
  int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override {
    return native_.getPoolUseCount(device, pool);
  }
  bool checkPoolLiveAllocations(DeviceIndex device,
                                MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override {
    return native_.checkPoolLiveAllocations(device, pool, expected);
  }
  caching::ShareableHandle shareIpcHandle(void* pointer) override {
    return native_.shareIpcHandle(pointer);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return native_.getIpcDevPtr(std::move(handle));
  }
  bool isHistoryEnabled() override { return native_.isHistoryEnabled(); }
  void recordAnnotation(
      const std::vector<std::pair<std::string, std::string>>& annotation) override {
    native_.recordAnnotation(annotation);
  }
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
    native_.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    native_.attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override {
    native_.enablePeerAccess(device, peer);
  }
  cudaError_t memcpyAsync(void* to,
                          int to_device,
                          const void* from,
                          int from_device,
                          size_t size,
                          cudaStream_t stream,
                          bool is_peer_enabled) override {
    return native_.memcpyAsync(to, to_device, from, from_device, size, stream, is_peer_enabled);
  }
  std::shared_ptr<caching::AllocatorState> getCheckpointState(DeviceIndex device,
                                                              MempoolId_t pool) override {
    return native_.getCheckpointState(device, pool);
  }
  caching::CheckpointDelta setCheckpointPoolState(
      DeviceIndex device, std::shared_ptr<caching::AllocatorState> state) override {
    return native_.setCheckpointPoolState(device, std::move(state));
  }
  /// PyTorch asserts that this is what its settings name.
  std::string name() override { return native_.name(); }

#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  void emptyCache(MempoolId_t pool) override {
    native_.emptyCache(pool);
  }
  void recordStream(const DataPtr& data, c10::Stream stream) override {
    // Through this object, so that a derived class sees both ways by one function.
    recordStream(data, CUDAStream(stream));
  }
  SnapshotInfo snapshot(MempoolId_t pool, bool with_traces) override {
    return native_.snapshot(pool, with_traces);
  }
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
    return native_.getExpandableSegmentSizes(device);
  }
  void markCaptureBegin(DeviceIndex device) override {
    native_.markCaptureBegin(device);
  }
  void markCaptureEnd(DeviceIndex device) override {
    native_.markCaptureEnd(device);
  }
  void createOrIncrefPool(DeviceIndex device,
                          MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    native_.createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool is_used) override {
    native_.setUseOnOOM(device, pool, is_used);
  }
  void setNoSplit(DeviceIndex device, MempoolId_t pool) override {
    native_.setNoSplit(device, pool);
  }
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* pointer) override {
    return native_.getContextForPointer(pointer);
  }
  void recordHistory(bool is_enabled,
                     CreateContextFn context,
                     size_t most_entries,
                     RecordContext when,
                     bool is_cleared,
                     const std::vector<std::string>& skipped) override {
    native_.recordHistory(is_enabled, context, most_entries, when, is_cleared, skipped);
  }
  void pushCompileContext(std::string& text) override {
    native_.pushCompileContext(text);
  }
  void popCompileContext() override {
    native_.popCompileContext();
  }
  bool supportsUserMetadata() override {
    return native_.supportsUserMetadata();
  }
  void setUserMetadata(const std::string& text) override {
    native_.setUserMetadata(text);
  }
  std::string getUserMetadata() override {
    return native_.getUserMetadata();
  }
  void annotateMemory(const void* pointer, const std::string& text) override {
    native_.annotateMemory(pointer, text);
  }
  void attachOomRejectionObserver(caching::OomRejectionObserver observer) override {
    native_.attachOomRejectionObserver(std::move(observer));
  }
  DataPtr allocateWithAddress(size_t size, void* address) override {
    return native_.allocateWithAddress(size, address);
  }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override {
    return native_.getMemoryInfo(device);
  }
#else
  void emptyCache() override {
    native_.emptyCache();
  }
  SnapshotInfo snapshot() override {
    return native_.snapshot();
  }
  void ensureExistsAndIncrefPool(DeviceIndex device, MempoolId_t pool) override {
    native_.ensureExistsAndIncrefPool(device, pool);
  }
  void recordHistory(bool is_enabled,
                     CreateContextFn context,
                     size_t most_entries,
                     RecordContext when) override {
    native_.recordHistory(is_enabled, context, most_entries, when);
  }
#endif

 private:
  CUDAAllocator& native_;
};

/// Makes `allocator` the one that PyTorch asks from now on, also after it has begun to use CUDA.
/// Blocks from before keep the deleter that they have. `allocator` is never destroyed.
void become_current(CUDAAllocator& allocator);

}  // namespace fragscope::shim
