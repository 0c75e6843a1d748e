// SPDX-License-Identifier: Apache-2.0
// Which private pool an event belongs to, where PyTorch's version does not say: the first one that
// requests on the event's stream go to at the time, as the native allocator itself decides it.
#pragma once

#include "allocator/torch/torch_names.hpp"

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace fragscope::shim {

#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR

/// Events say it themselves.
class CapturedPools {
 public:
  void begin(DeviceIndex, const MempoolId_t&, const std::function<bool(cudaStream_t)>&) {}
  void end(DeviceIndex, const MempoolId_t&) {}
  [[nodiscard]] MempoolId_t pool_of(const TraceEntry& entry, bool /*is_of_segment*/) const {
    return entry.mempool_;
  }
};

#else

/// Thread-safe. Filters are asked under PyTorch's lock, as it does.
class CapturedPools {
 public:
  void begin(DeviceIndex device, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) {
    const std::lock_guard lock(mutex_);
    captures_.push_back({device, pool, std::move(filter)});
  }
  void end(DeviceIndex device, MempoolId_t pool) {
    const std::lock_guard lock(mutex_);
    for (auto at = captures_.begin(); at != captures_.end(); ++at) {
      if (at->device != device || at->pool != pool) continue;
      captures_.erase(at);
      return;
    }
  }
  /// Of a free it does not matter: its block says it.
  [[nodiscard]] MempoolId_t pool_of(const TraceEntry& entry, bool is_of_segment) {
    const bool is_request = entry.action_ == TraceEntry::ALLOC || entry.action_ == TraceEntry::OOM;
    if (!is_of_segment && !is_request) return {0, 0};
    const std::lock_guard lock(mutex_);
    for (const Capture& capture : captures_) {
      if (capture.device == entry.device_ && capture.filter(entry.stream_)) return capture.pool;
    }
    return {0, 0};
  }

 private:
  struct Capture {
    DeviceIndex device;
    MempoolId_t pool;
    std::function<bool(cudaStream_t)> filter;
  };
  std::mutex mutex_;
  std::vector<Capture> captures_;
};

#endif

}  // namespace fragscope::shim
