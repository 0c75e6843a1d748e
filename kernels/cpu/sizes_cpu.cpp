// SPDX-License-Identifier: Apache-2.0
// The scans about sizes on the CPU: servability, and the cheapest windows.
#include "kernels/cpu/scans_cpu.hpp"
#include "kernels/cpu/threads.hpp"

#include <algorithm>

namespace fragscope::kernels {
namespace {

/// Segments, or words of a bit map, that a thread takes at once: so many that taking does not
/// count.
constexpr std::uint64_t kAtOnce = 256;

/// Calls `work(i)` for each i below `count`, `kAtOnce` of them in a row.
template <class Work>
void for_each_in_rows(std::uint64_t count, unsigned threads, const Work& work) {
  for_each_index((count + kAtOnce - 1) / kAtOnce, threads, [&](std::uint64_t row) {
    const std::uint64_t end = std::min(count, (row + 1) * kAtOnce);
    for (std::uint64_t i = row * kAtOnce; i < end; ++i)
      work(i);
  });
}

// For each last block, the shortest run of blocks that ends there and is long enough; a longer one
// never has fewer live bytes.
Window cheapest_window(std::span<const PackedBlock> blocks,
                       std::uint64_t begin,
                       std::uint64_t end,
                       std::uint64_t size_bytes) {
  Window best;
  Window at{0, 0, begin};
  for (std::uint64_t last = begin; last < end; ++last) {
    at.bytes += blocks[last].size_bytes();
    at.live_bytes += blocks[last].live_bytes();
    while (at.bytes - blocks[at.first].size_bytes() >= size_bytes) {
      at.bytes -= blocks[at.first].size_bytes();
      at.live_bytes -= blocks[at.first].live_bytes();
      ++at.first;
    }
    if (at.bytes >= size_bytes) best = CheaperWindow{}(best, at);
  }
  return best;
}

}  // namespace

void find_windows_cpu(std::span<const PackedBlock> blocks,
                      std::span<const std::uint64_t> segment_begins,
                      std::uint64_t size_bytes,
                      unsigned threads,
                      std::span<Window> output) {
  for_each_in_rows(output.size(), threads, [&](std::uint64_t segment) {
    output[segment] = cheapest_window(blocks,
                                      segment_begins[segment] - segment_begins[0],
                                      segment_begins[segment + 1] - segment_begins[0],
                                      size_bytes);
  });
}

void find_servability_cpu(const FillServability& fill, unsigned threads) {
  for_each_in_rows(kSenses * fill.words(), threads, fill);
}

}  // namespace fragscope::kernels
