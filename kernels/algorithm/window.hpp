// SPDX-License-Identifier: Apache-2.0
// A range of whole blocks of one segment that could hold a request if its live blocks moved, and
// which of two is cheaper. Used by both forms of the window scan and by their callers.
#pragma once

#include "kernels/primitives/host_device.hpp"

#include <cstdint>

namespace fragscope::kernels {

struct Window {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  std::uint64_t live_bytes = kNone;  ///< To move: live blocks count whole, pending ones, too.
  std::uint64_t bytes = kNone;       ///< Of its blocks.
  std::uint64_t first = kNone;       ///< Its first block, counted from the table's first.

  /// Whether there is one: the segment is large enough.
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr bool exists() const { return first != kNone; }
  friend bool operator==(const Window&, const Window&) = default;
};

/// Fewer live bytes, then fewer bytes, then the lower address; as the pins of `analyze` are chosen.
/// Associative and commutative; the identity is the window that does not exist.
struct CheaperWindow {
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE constexpr Window operator()(const Window& a,
                                                                  const Window& b) const {
    if (a.live_bytes != b.live_bytes) return a.live_bytes < b.live_bytes ? a : b;
    if (a.bytes != b.bytes) return a.bytes < b.bytes ? a : b;
    return a.first <= b.first ? a : b;
  }
};

}  // namespace fragscope::kernels
