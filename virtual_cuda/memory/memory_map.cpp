// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/memory/memory_map.hpp"

#include <iterator>

namespace fragscope::virtual_cuda {

bool MemoryMap::insert(const MemoryEntry& entry) {
  if (overlaps(entry.range)) return false;
  return entries_.emplace(entry.range.begin, entry).second;
}

const MemoryEntry* MemoryMap::find(std::uint64_t address) const {
  const auto after = entries_.upper_bound(address);
  if (after == entries_.begin()) return nullptr;
  const MemoryEntry& entry = std::prev(after)->second;
  return entry.range.contains(address) ? &entry : nullptr;
}

const MemoryEntry* MemoryMap::find_begin(std::uint64_t begin) const {
  const auto found = entries_.find(begin);
  return found == entries_.end() ? nullptr : &found->second;
}

bool MemoryMap::covers(AddressRange range) const {
  std::uint64_t at = range.begin;
  while (at < range.end()) {
    const MemoryEntry* const entry = find(at);
    if (entry == nullptr) return false;
    at = entry->range.end();
  }
  return true;
}

bool MemoryMap::overlaps(AddressRange range) const {
  if (range.size_bytes == 0) return false;
  const auto after = entries_.lower_bound(range.end());
  return after != entries_.begin() && std::prev(after)->second.range.end() > range.begin;
}

}  // namespace fragscope::virtual_cuda
