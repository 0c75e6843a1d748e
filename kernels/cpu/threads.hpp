// SPDX-License-Identifier: Apache-2.0
// Work over a range of numbers, on several threads. Used by the scans on the CPU.
#pragma once

#include <cstdint>
#include <functional>

namespace fragscope::kernels {

/// As many as there are cores for this process, at least 1.
[[nodiscard]] unsigned usable_threads();

/// Calls `work(i)` once for each i below `count`, in no order, on `threads` threads (0: as many as
/// are usable; never more than `count`), the calling one among them. Returns when all are done.
void for_each_index(std::uint64_t count,
                    unsigned threads,
                    const std::function<void(std::uint64_t)>& work);

}  // namespace fragscope::kernels
