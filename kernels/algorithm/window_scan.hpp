// SPDX-License-Identifier: Apache-2.0
// The cheapest window of each segment, over the primitives: two prefix sums, a search from each
// block, and the least of what the blocks of a segment found. It runs on a GPU by the primitives'
// CUDA form, and in tests by their host form; the CPU slides a window instead
// (`cpu/sizes_cpu.cpp`).
#pragma once

#include "kernels/algorithm/groups.hpp"
#include "kernels/algorithm/window.hpp"
#include "kernels/block_table.hpp"
#include "trace/result.hpp"

#include <cstdint>

namespace fragscope::kernels {

/// What the prefix sums run over: the blocks, and nothing behind the last.
template <bool kLiveOnly>
struct BlockBytes {
  const PackedBlock* blocks = nullptr;
  std::uint64_t count = 0;
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE std::uint64_t operator()(std::uint64_t at) const {
    if (at >= count) return 0;
    return kLiveOnly ? blocks[at].live_bytes() : blocks[at].size_bytes();
  }
};

/// Sums may wrap: only differences inside a segment are used, and those fit.
struct AddBytes {
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE std::uint64_t operator()(std::uint64_t a,
                                                               std::uint64_t b) const {
    return a + b;
  }
};

/// The shortest window that begins with a block.
struct WindowFrom {
  const std::uint64_t* bytes_before = nullptr;  ///< One more than blocks.
  const std::uint64_t* live_before = nullptr;
  GroupIndex segments;
  std::uint64_t size_bytes = 0;

  [[nodiscard]] FRAGSCOPE_HOST_DEVICE Window operator()(std::uint64_t first) const {
    const std::uint64_t end = segments.end_of(segments.find(first));
    std::uint64_t low = first + 1;
    std::uint64_t high = end;
    if (bytes_before[end] - bytes_before[first] < size_bytes) return {};
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (bytes_before[middle] - bytes_before[first] >= size_bytes) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return {live_before[low] - live_before[first], bytes_before[low] - bytes_before[first], first};
  }
};

template <class Form>
class WindowScan {
 public:
  /// Room for tables of up to `blocks` blocks.
  [[nodiscard]] static Result<WindowScan> make(Form& form, std::uint64_t blocks) {
    WindowScan scan;
    if (auto made = form.allocate(blocks + 1, scan.bytes_before_); !made) {
      return tl::unexpected(made.error());
    }
    if (auto made = form.allocate(blocks + 1, scan.live_before_); !made) {
      return tl::unexpected(made.error());
    }
    return scan;
  }

  /// All pointers are of the form's memory; `output` has one for each segment.
  [[nodiscard]] Result<void> run(Form& form,
                                 const PackedBlock* blocks,
                                 std::uint64_t count,
                                 const GroupIndex& segments,
                                 std::uint64_t size_bytes,
                                 Window* output) {
    const auto sum = [&](const auto& bytes, std::uint64_t* into) {
      return form.scan(bytes, count + 1, AddBytes{}, std::uint64_t{0}, into);
    };
    return sum(BlockBytes<false>{blocks, count}, bytes_before_.data())
        .and_then([&] {
          return sum(BlockBytes<true>{blocks, count}, live_before_.data());
        })
        .and_then([&] {
          return form.reduce_segments(
              WindowFrom{bytes_before_.data(), live_before_.data(), segments, size_bytes},
              segments.begins,
              segments.groups,
              CheaperWindow{},
              Window{},
              output);
        });
  }

 private:
  typename Form::template Array<std::uint64_t> bytes_before_;
  typename Form::template Array<std::uint64_t> live_before_;
};

}  // namespace fragscope::kernels
