// SPDX-License-Identifier: Apache-2.0
// The default memory pool of a device, behind cudaMallocAsync. It keeps what is freed up to its
// release threshold and hands it out again. Owned by the machine and used under its lock.
#pragma once

#include "virtual_cuda/abi/status.hpp"
#include "virtual_cuda/device/device.hpp"
#include "virtual_cuda/memory/allocations.hpp"

#include <cstdint>
#include <map>
#include <unordered_map>

namespace fragscope::virtual_cuda {

/// A figure that programs may read and whose peak they may reset.
struct Gauge {
  std::uint64_t current = 0;
  std::uint64_t high = 0;

  void add(std::uint64_t bytes);
  void subtract(std::uint64_t bytes) { current -= bytes; }
};

/// Simpler than the driver's pool where nobody can tell: pieces are not split, so one that was
/// freed serves only a request of as many pages, and order between streams plays no part.
class AsyncPool {
 public:
  AsyncPool(Device& device, Allocations& allocations, MemoryMap& map);

  [[nodiscard]] Status allocate(std::uint64_t size_bytes, std::uint64_t* begin);
  [[nodiscard]] Status release(std::uint64_t begin);
  /// Gives free pieces back to the device until at most `keep_bytes` are reserved.
  void trim(std::uint64_t keep_bytes);
  /// What a wait does: trims to the threshold.
  void trim_to_threshold() { trim(threshold_bytes_); }

  [[nodiscard]] std::uint64_t threshold_bytes() const { return threshold_bytes_; }
  void set_threshold_bytes(std::uint64_t bytes) { threshold_bytes_ = bytes; }
  [[nodiscard]] Gauge& reserved() { return reserved_; }
  [[nodiscard]] Gauge& used() { return used_; }

 private:
  Device& device_;
  Allocations& allocations_;
  MemoryMap& map_;
  std::uint64_t threshold_bytes_ = 0;
  Gauge reserved_;  // Whole pages.
  Gauge used_;      // What programs asked for, in the pool's units.
  std::unordered_map<std::uint64_t, std::uint64_t> live_;  // Begin to bytes used.
  std::multimap<std::uint64_t, std::uint64_t> free_;       // Bytes reserved to begin.
};

}  // namespace fragscope::virtual_cuda
