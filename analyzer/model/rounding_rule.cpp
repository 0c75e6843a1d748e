// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/rounding_rule.hpp"

#include <algorithm>

namespace fragscope::model {
namespace {

constexpr std::uint64_t kPadding = 32;

std::uint64_t padded(std::uint64_t requested_bytes) {
  return policy::round_up(requested_bytes + kPadding, policy::kMinBlockSize);
}

}  // namespace

std::string_view to_string(RoundingRule rule) {
  switch (rule) {
    case RoundingRule::kCuda:
      return "PyTorch CUDA: 512 * ceil(n / 512), power-of-two divisions as set";
    case RoundingRule::kPadded32:
      return "512 * ceil((n + 32) / 512), as Ascend's fork pads";
    case RoundingRule::kUnknown:
      return "unknown";
    case RoundingRule::kUntested:
      return "PyTorch CUDA, assumed: no live block of class small to check it";
  }
  return "unknown";
}

RoundingRule find_rounding_rule(const Recording& recording) {
  bool cuda_fits = true;
  bool padded_fits = true;
  bool tested = false;
  for (const Segment& segment : recording.segments) {
    if (segment.size_class != SizeClass::kSmall) continue;
    for (const Block& block : recording.blocks_of(segment)) {
      if (block.state != BlockState::kLive || !block.has_requested) continue;
      tested = true;
      cuda_fits = cuda_fits && block.size_bytes == policy::round_size(block.requested_bytes,
                                                                      recording.settings.rules);
      padded_fits = padded_fits && block.size_bytes == padded(block.requested_bytes);
    }
  }
  if (!tested) return RoundingRule::kUntested;
  if (cuda_fits) return RoundingRule::kCuda;
  return padded_fits ? RoundingRule::kPadded32 : RoundingRule::kUnknown;
}

BoundedSize rounded_size(std::uint64_t requested_bytes,
                         RoundingRule rule,
                         const policy::SizeRules& rules) {
  if (rule == RoundingRule::kCuda || rule == RoundingRule::kUntested) {
    return {policy::round_size(requested_bytes, rules), 0};
  }
  // Another writer: at least the plain rounding; at most one step more, or what the divisions say.
  const std::uint64_t low =
      policy::round_up(std::max<std::uint64_t>(requested_bytes, 1), policy::kMinBlockSize);
  if (rule == RoundingRule::kPadded32) {
    return {low, static_cast<std::uint32_t>(padded(requested_bytes) - low)};
  }
  return {low, static_cast<std::uint32_t>(policy::kMinBlockSize)};
}

}  // namespace fragscope::model
