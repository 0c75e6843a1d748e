// SPDX-License-Identifier: Apache-2.0
// What record_function says of a program while a history is recorded, as snapshots show it.
#pragma once

#include "allocator/torch/torch_names.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::shim {

/// Thread-safe.
class Annotations {
 public:
  using Entry = decltype(SnapshotInfo::external_annotations)::value_type;

  void request(bool is_enabled, bool is_cleared, std::size_t most_entries) {
    const std::lock_guard lock(mutex_);
    is_enabled_ = is_enabled;
    most_entries_ = std::max<std::size_t>(most_entries, 1);
    if (!is_enabled || is_cleared) entries_.clear();
    while (entries_.size() > most_entries_)
      entries_.pop_front();
  }

  [[nodiscard]] bool is_enabled() const { return is_enabled_.load(std::memory_order_relaxed); }

  /// Nothing while no history is recorded. The time is raw.
  void add(DeviceIndex device, const std::vector<std::pair<std::string, std::string>>& metadata) {
    if (!is_enabled()) return;
    Entry entry(device, c10::getApproximateTime());
    for (const auto& [name, value] : metadata)
      entry.recordUserMetadata(name, value);
    const std::lock_guard lock(mutex_);
    if (entries_.size() == most_entries_) entries_.pop_front();
    entries_.push_back(std::move(entry));
  }

  /// Oldest first.
  [[nodiscard]] std::vector<Entry> entries() {
    const std::lock_guard lock(mutex_);
    return {entries_.begin(), entries_.end()};
  }

 private:
  std::atomic<bool> is_enabled_ = false;
  std::mutex mutex_;
  std::deque<Entry> entries_;
  std::size_t most_entries_ = 1;
};

}  // namespace fragscope::shim
