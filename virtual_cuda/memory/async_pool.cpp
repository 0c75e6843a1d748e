// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/memory/async_pool.hpp"

#include <algorithm>
#include <iterator>

namespace fragscope::virtual_cuda {
namespace {

constexpr std::uint64_t kUnitBytes = 512;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void Gauge::add(std::uint64_t bytes) {
  current += bytes;
  high = std::max(high, current);
}

AsyncPool::AsyncPool(Device& device, Allocations& allocations, MemoryMap& map)
    : device_(device)
    , allocations_(allocations)
    , map_(map) {}

Status AsyncPool::allocate(std::uint64_t size_bytes, std::uint64_t* begin) {
  if (size_bytes > device_.total_bytes()) return Status::kOutOfMemory;
  const std::uint64_t used = round_up(size_bytes, kUnitBytes);
  const std::uint64_t pages = round_up(size_bytes, kPageBytes);
  if (const auto piece = free_.find(pages); piece != free_.end()) {
    *begin = piece->second;
    free_.erase(piece);
  } else {
    MemoryEntry wanted;
    wanted.range.size_bytes = pages;
    wanted.kind = MemoryKind::kPool;
    wanted.device = device_.index();
    Status status = allocations_.allocate(device_, wanted, begin);
    if (status == Status::kOutOfMemory && !free_.empty()) {
      trim(0);
      status = allocations_.allocate(device_, wanted, begin);
    }
    if (status != Status::kSuccess) return status;
    reserved_.add(pages);
  }
  used_.add(used);
  live_.emplace(*begin, used);
  return Status::kSuccess;
}

Status AsyncPool::release(std::uint64_t begin) {
  const auto found = live_.find(begin);
  const MemoryEntry* const entry = map_.find_begin(begin);
  if (found == live_.end() || entry == nullptr) return Status::kInvalidValue;
  used_.subtract(found->second);
  live_.erase(found);
  free_.emplace(entry->range.size_bytes, begin);
  return Status::kSuccess;
}

void AsyncPool::trim(std::uint64_t keep_bytes) {
  while (reserved_.current > keep_bytes && !free_.empty()) {
    const auto largest = std::prev(free_.end());
    const MemoryEntry* const entry = map_.find_begin(largest->second);
    free_.erase(largest);
    reserved_.subtract(entry->range.size_bytes);
    static_cast<void>(allocations_.release(device_, *entry));
  }
}

}  // namespace fragscope::virtual_cuda
