// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/size_rules.hpp"

#include <algorithm>
#include <bit>

namespace fragscope::policy {

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  const std::uint64_t rest = bytes % unit;
  if (rest == 0) return bytes;
  const std::uint64_t add = unit - rest;
  return bytes > kUnlimited - add ? kUnlimited - kUnlimited % unit : bytes + add;
}

namespace {

std::uint64_t divisions_for(std::uint64_t bytes, const SizeRules& rules) {
  const int log2_bytes = static_cast<int>(std::bit_width(bytes)) - 1;
  const int bucket = std::clamp(log2_bytes - 20, 0, 15);
  return rules.roundup_divisions[static_cast<std::size_t>(bucket)];
}

}  // namespace

std::uint64_t round_size(std::uint64_t bytes, const SizeRules& rules) {
  if (bytes < kMinBlockSize) return kMinBlockSize;
  const std::uint64_t divisions = divisions_for(bytes, rules);
  // The second condition keeps the step at 512 bytes or more. From 2^55 divisions on its product
  // wraps to zero, in PyTorch too, and the next power of two is the only step left.
  if (divisions > 1 && bytes > kMinBlockSize * divisions) {
    if (std::has_single_bit(bytes)) return bytes;
    const std::uint64_t step = std::bit_floor(bytes) / divisions;
    if (step > 0) return round_up(bytes, step);
    return bytes > kUnlimited / 2 ? kUnlimited : std::bit_ceil(bytes);
  }
  return round_up(bytes, kMinBlockSize);
}

std::uint64_t device_allocation(std::uint64_t rounded_size, const SizeRules& rules) {
  if (rounded_size <= kSmallSize) return kSmallBuffer;
  if (rounded_size < kMinLargeAlloc) return rules.large_segment_size;
  return round_up(rounded_size, kRoundLarge);
}

std::uint64_t page_size(SizeClass size_class, const SizeRules& rules) {
  return size_class == SizeClass::kSmall ? kSmallBuffer : rules.large_segment_size;
}

bool should_split(std::uint64_t block_size,
                  std::uint64_t request,
                  bool fine_split,
                  const SizeRules& rules) {
  const std::uint64_t rest = block_size - request;
  if (fine_split) return rest >= kMinBlockSize;
  return request < rules.max_split_size && rest > kSmallSize;
}

bool oversize_rules_admit(std::uint64_t block_size, std::uint64_t request, const SizeRules& rules) {
  if (request < rules.max_split_size) return block_size < rules.max_split_size;
  return block_size - request < rules.max_non_split_rounding;
}

}  // namespace fragscope::policy
