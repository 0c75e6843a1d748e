// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/device/address_space.hpp"

#include "trace/check.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace fragscope::virtual_cuda {
namespace {

std::uint64_t align_up(std::uint64_t value, std::uint64_t power_of_two) {
  return (value + power_of_two - 1) & ~(power_of_two - 1);
}

}  // namespace

AddressSpace::AddressSpace(AddressRange window, std::uint64_t granularity_bytes)
    : window_(window)
    , granularity_bytes_(granularity_bytes) {
  FRAGSCOPE_DCHECK(std::has_single_bit(granularity_bytes));
  FRAGSCOPE_DCHECK(window.begin % granularity_bytes == 0);
  FRAGSCOPE_DCHECK(window.size_bytes % granularity_bytes == 0);
  holes_.emplace(window.begin, window.size_bytes);
}

std::optional<AddressRange> AddressSpace::reserve(AddressRequest request) {
  const std::uint64_t alignment = std::max(request.alignment_bytes, granularity_bytes_);
  // The second condition keeps the rounding below from wrapping around.
  if (request.size_bytes == 0 || request.size_bytes > window_.size_bytes) return std::nullopt;
  if (!std::has_single_bit(alignment)) return std::nullopt;
  const std::uint64_t size = align_up(request.size_bytes, granularity_bytes_);

  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    const auto [hole_begin, hole_size] = *hole;
    const std::uint64_t begin = align_up(hole_begin, alignment);
    const std::uint64_t skipped = begin - hole_begin;
    if (skipped > hole_size || hole_size - skipped < size) continue;

    holes_.erase(hole);
    if (skipped > 0) holes_.emplace(hole_begin, skipped);
    const std::uint64_t rest = hole_size - skipped - size;
    if (rest > 0) holes_.emplace(begin + size, rest);
    taken_.emplace(begin, size);
    reserved_bytes_ += size;
    return AddressRange{begin, size};
  }
  return std::nullopt;
}

bool AddressSpace::release(std::uint64_t begin) {
  const auto found = taken_.find(begin);
  if (found == taken_.end()) return false;
  const AddressRange range{begin, found->second};
  taken_.erase(found);
  reserved_bytes_ -= range.size_bytes;
  add_hole(range);
  return true;
}

std::optional<AddressRange> AddressSpace::find(std::uint64_t address) const {
  const auto after = taken_.upper_bound(address);
  if (after == taken_.begin()) return std::nullopt;
  const auto [begin, size] = *std::prev(after);
  const AddressRange range{begin, size};
  return range.contains(address) ? std::optional(range) : std::nullopt;
}

void AddressSpace::add_hole(AddressRange hole) {
  auto next = holes_.lower_bound(hole.begin);
  if (next != holes_.end() && next->first == hole.end()) {
    hole.size_bytes += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == hole.begin) {
      previous->second += hole.size_bytes;
      return;
    }
  }
  holes_.emplace(hole.begin, hole.size_bytes);
}

}  // namespace fragscope::virtual_cuda
