// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/made_heap.hpp"

#include <algorithm>
#include <optional>
#include <random>

namespace fragscope::kernels {
namespace {

/// Adds block by block what `find_runs` finds otherwise.
class PlainRuns {
 public:
  void add(PackedBlock block, bool first_of_group) {
    if (first_of_group) end_group();
    if (block.is_first()) end_segment();
    segment_bytes_ += block.size_bytes();
    if (block.is_free()) {
      run_bytes_ += block.size_bytes();
    } else {
      end_run();
      has_live_ = true;
    }
  }
  std::vector<GroupRuns> finish() {
    end_group();
    return std::move(groups_);
  }

 private:
  void end_run() {
    group_.free_bytes += run_bytes_;
    group_.largest_run_bytes = std::max(group_.largest_run_bytes, run_bytes_);
    if (run_bytes_ > 0) ++group_.runs;
    run_bytes_ = 0;
  }
  void end_segment() {
    end_run();
    if (!has_live_) group_.free_segment_bytes += segment_bytes_;
    has_live_ = false;
    segment_bytes_ = 0;
  }
  void end_group() {
    end_segment();
    if (started_) groups_.push_back(group_);
    started_ = true;
    group_ = {};
  }

  std::vector<GroupRuns> groups_;
  GroupRuns group_;
  std::uint64_t run_bytes_ = 0;
  std::uint64_t segment_bytes_ = 0;
  bool has_live_ = false;
  bool started_ = false;
};

MadeHeap make_heap(const HeapShape& shape) {
  MadeHeap heap;
  heap.blocks.resize(shape.blocks);
  std::mt19937_64 draw(1);
  PlainRuns runs;
  std::uint64_t segment_left = 0;
  for (std::uint64_t i = 0; i < shape.blocks; ++i) {
    const std::uint64_t random = draw();
    const std::uint64_t size = 512 * (1 + random % 4096);
    const bool first_of_group = i % shape.group_blocks == 0;
    PackedBlock block = (random >> 32 & 1) != 0 ? PackedBlock::free(size) : PackedBlock::live(size);
    if (first_of_group || segment_left == 0) {
      block = block.as_first();
      segment_left = 1 + (random >> 40) % shape.segment_blocks;
      heap.segment_begins.push_back(i);
    }
    --segment_left;
    if (first_of_group) heap.group_begins.push_back(i);
    runs.add(block, first_of_group);
    heap.blocks[i] = block;
  }
  heap.group_begins.push_back(shape.blocks);
  heap.segment_begins.push_back(shape.blocks);
  heap.runs = runs.finish();
  return heap;
}

}  // namespace

const MadeHeap& made_heap(const HeapShape& shape) {
  static std::optional<HeapShape> kept;
  static MadeHeap heap;
  if (kept != shape) {
    heap = {};
    heap = make_heap(shape);
    kept = shape;
  }
  return heap;
}

}  // namespace fragscope::kernels
