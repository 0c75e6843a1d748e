// SPDX-License-Identifier: Apache-2.0
// The arithmetic of PyTorch's CUDA caching allocator as pure functions: how a request is rounded,
// which class it belongs to, what the driver is asked for, when a block is split and when the
// oversize rules refuse one. The live policy, the replay and the analyzer all use these, so they
// cannot disagree. Facts: PyTorch 2.15 (c10/cuda/CUDACachingAllocator.cpp); the constants hold
// since 1.1. All sizes are bytes. Pure, no state, safe to call from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace fragscope::policy {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

inline constexpr std::uint64_t kMinBlockSize = 512;       ///< Granularity of every block.
inline constexpr std::uint64_t kSmallSize = kMiB;         ///< Largest rounded size of class small.
inline constexpr std::uint64_t kSmallBuffer = 2 * kMiB;   ///< Segment (or page) of class small.
inline constexpr std::uint64_t kLargeBuffer = 20 * kMiB;  ///< Default segment of class large.
inline constexpr std::uint64_t kMinLargeAlloc =
    10 * kMiB;                                          ///< From here a segment fits its request.
inline constexpr std::uint64_t kRoundLarge = 2 * kMiB;  ///< ... rounded up to this.
inline constexpr std::uint64_t kTooLarge = std::uint64_t{1} << 60;  ///< Refused at once from here.
inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// Small (rounded size up to 1 MiB) or large. A request of one class never uses blocks of the
/// other.
enum class SizeClass : std::uint8_t { kSmall, kLarge };

[[nodiscard]] constexpr std::string_view to_string(SizeClass size_class) {
  return size_class == SizeClass::kSmall ? "small" : "large";
}

/// The options of PYTORCH_CUDA_ALLOC_CONF that decide sizes; the defaults are PyTorch's.
struct SizeRules {
  std::uint64_t large_segment_size = kLargeBuffer;      ///< large_segment_size_mb
  std::uint64_t max_split_size = kUnlimited;            ///< max_split_size_mb
  std::uint64_t max_non_split_rounding = kLargeBuffer;  ///< max_non_split_rounding_mb
  /// roundup_power2_divisions by floor(log2(size in MiB)), 0 to 15; 0 and 1 mean plain rounding.
  std::array<std::uint64_t, 16> roundup_divisions{};
  bool expandable_segments = false;
};

/// `bytes` rounded up to a multiple of `unit` (a power of two or not, not 0); saturates.
[[nodiscard]] std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit);

/// The block size that serves a request of `bytes`: at least 512, a multiple of 512, or the next
/// step of the power-of-two divisions.
[[nodiscard]] std::uint64_t round_size(std::uint64_t bytes, const SizeRules& rules);

[[nodiscard]] constexpr SizeClass size_class(std::uint64_t rounded_size) {
  return rounded_size <= kSmallSize ? SizeClass::kSmall : SizeClass::kLarge;
}

/// What a plain segment for this request asks of the driver; "Tried to allocate" prints it.
[[nodiscard]] std::uint64_t device_allocation(std::uint64_t rounded_size, const SizeRules& rules);

/// Size of the physical pages of an expandable segment of this class.
[[nodiscard]] std::uint64_t page_size(SizeClass size_class, const SizeRules& rules);

/// Whether the allocator cuts `request` off the front of a free block of `block_size`; if not, the
/// request gets the whole block. `fine_split`: the block is of class small, or expandable segments
/// are in use for this request.
[[nodiscard]] bool should_split(std::uint64_t block_size,
                                std::uint64_t request,
                                bool fine_split,
                                const SizeRules& rules);

/// Whether the oversize rules let a free block of `block_size` serve `request` (both in one class;
/// `block_size` >= `request`). A block of max_split_size or more serves only requests of that size
/// or more, and then only if less than max_non_split_rounding would be wasted.
[[nodiscard]] bool oversize_rules_admit(std::uint64_t block_size,
                                        std::uint64_t request,
                                        const SizeRules& rules);

}  // namespace fragscope::policy
