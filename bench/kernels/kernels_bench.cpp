// SPDX-License-Identifier: Apache-2.0
// The scans beside a copy of memory in the same run. Bytes are the input read once plus the output
// written once, on both sides, so a copy counts its bytes twice. FRAGSCOPE_BENCH_BLOCKS is the
// number of blocks that are streamed (a million if not set; 1000000000 for the figures). Every
// answer is compared before anything is timed: the CPU with sums known from how the heap is made,
// CUDA with the CPU. On a machine without a GPU one row says so in place of those of CUDA.
#include "bench/kernels/made_heap.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/cuda_devices.hpp"
#include "kernels/run_stream.hpp"
#include "kernels/scans.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace fragscope::kernels;
using fragscope::Result;

std::uint64_t streamed_blocks() {
  const char* given = std::getenv("FRAGSCOPE_BENCH_BLOCKS");
  return given == nullptr ? 1'000'000 : std::strtoull(given, nullptr, 10);
}

void count_work(benchmark::State& state, std::uint64_t items, std::uint64_t bytes) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(items));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

std::uint64_t runs_bytes(const MadeHeap& heap) {
  return heap.blocks.size() * sizeof(PackedBlock) + heap.groups() * sizeof(GroupRuns);
}

/// The ceiling of the CPU, on one thread or on as many as the scan has; each copies its part at
/// once, so that the library takes the way it takes for large copies.
void memory_copy(benchmark::State& state, unsigned threads) {
  const MadeHeap& heap = made_heap({.blocks = kLargeBlocks});
  std::vector<PackedBlock> copy(heap.blocks.size());
  const std::uint64_t part_blocks = (copy.size() + threads - 1) / threads;
  for (auto round : state) {
    for_each_index(threads, threads, [&](std::uint64_t part) {
      const std::uint64_t begin = std::min(copy.size(), part * part_blocks);
      const std::uint64_t count = std::min(part_blocks, copy.size() - begin);
      std::memcpy(copy.data() + begin, heap.blocks.data() + begin, count * sizeof(PackedBlock));
    });
    benchmark::ClobberMemory();
  }
  if (std::memcmp(copy.data(), heap.blocks.data(), copy.size() * sizeof(PackedBlock)) != 0) {
    state.SkipWithError("the copy differs");
  }
  count_work(state, copy.size(), 2 * copy.size() * sizeof(PackedBlock));
}

/// What a plain loop takes that only reads, on one thread.
void memory_read(benchmark::State& state) {
  const MadeHeap& heap = made_heap({.blocks = kLargeBlocks});
  for (auto round : state) {
    std::uint64_t all = 0;
    for (const PackedBlock& block : heap.blocks)
      all ^= block.bits;
    benchmark::DoNotOptimize(all);
  }
  count_work(state, heap.blocks.size(), heap.blocks.size() * sizeof(PackedBlock));
}

void runs(benchmark::State& state, const HeapShape& shape, Device device, unsigned threads) {
  const MadeHeap& heap = made_heap(shape);
  const BlockTable table{heap.blocks, heap.group_begins};
  const Result<Runs> found = find_runs(table, false, {device, threads});
  if (!found) return state.SkipWithError(found.error().describe().c_str());
  if (found->groups != heap.runs) return state.SkipWithError("wrong runs");
  for (auto round : state)
    benchmark::DoNotOptimize(find_runs(table, false, {device, threads}));
  count_work(state, heap.blocks.size(), runs_bytes(heap));
}

/// The same table again and again, as the chunks of one that is far larger than memory. Filling is
/// a copy, which every stream has in one form or another; it is timed, as is the check of each
/// chunk.
void streamed_runs(benchmark::State& state, Device device, unsigned threads) {
  const MadeHeap& heap = made_heap({.blocks = std::uint64_t{1} << 22});
  const std::uint64_t chunks = std::max<std::uint64_t>(1, streamed_blocks() / heap.blocks.size());
  const std::uint64_t blocks = chunks * heap.blocks.size();
  std::uint64_t wrong = 0;
  for (auto round : state) {
    std::uint64_t filled = 0;
    const auto fill = [&](const Chunk& chunk) -> Result<std::uint64_t> {
      if (filled++ == chunks) return 0;
      std::ranges::copy(heap.blocks, chunk.blocks.begin());
      std::ranges::copy(heap.group_begins, chunk.group_begins.begin());
      return heap.groups();
    };
    const auto take = [&](std::uint64_t, std::span<const GroupRuns> found) -> Result<void> {
      if (!std::ranges::equal(found, heap.runs)) ++wrong;
      return {};
    };
    const auto ran = stream_runs({heap.blocks.size(), heap.groups()},
                                 blocks * sizeof(PackedBlock),
                                 fill,
                                 take,
                                 {device, threads});
    if (!ran) return state.SkipWithError(ran.error().describe().c_str());
  }
  if (wrong != 0) state.SkipWithError("wrong runs");
  count_work(state, blocks, chunks * runs_bytes(heap));
}

void servability(benchmark::State& state, std::uint64_t size_count, Device device) {
  const MadeHeap& heap = made_heap({.blocks = kLargeBlocks, .group_blocks = 64});
  std::vector<std::uint64_t> sizes(size_count);
  for (std::uint64_t i = 0; i < size_count; ++i)
    sizes[i] = (i + 1) * 512 * 4096 / size_count;
  const ScanOptions options{device, 1};
  const auto cpu = find_servability(heap.runs, {}, sizes, {Device::kCpu, 1});
  const auto found = find_servability(heap.runs, {}, sizes, options);
  if (!found || !cpu || found->bits != cpu->bits) return state.SkipWithError("wrong bits");
  for (auto round : state)
    benchmark::DoNotOptimize(find_servability(heap.runs, {}, sizes, options));
  count_work(state,
             heap.groups() * size_count,
             heap.groups() * (sizeof(GroupRuns) + kSenses * sizeof(std::uint32_t)) +
                 found->bits.size() * sizeof(std::uint64_t));
}

void windows(benchmark::State& state, const HeapShape& shape, Device device) {
  const MadeHeap& heap = made_heap(shape);
  const BlockTable table{heap.blocks, heap.group_begins};
  constexpr std::uint64_t kSize = std::uint64_t{1} << 20;
  const ScanOptions options{device, 1};
  const auto cpu = find_windows(table, heap.segment_begins, kSize, {Device::kCpu, 1});
  const auto found = find_windows(table, heap.segment_begins, kSize, options);
  if (!found || !cpu || found->segments != cpu->segments) {
    return state.SkipWithError("wrong windows");
  }
  for (auto round : state)
    benchmark::DoNotOptimize(find_windows(table, heap.segment_begins, kSize, options));
  count_work(state,
             heap.blocks.size(),
             heap.blocks.size() * sizeof(PackedBlock) + found->segments.size() * sizeof(Window));
}

template <class Row>
void add(const std::string& name, const Row& row) {
  benchmark::RegisterBenchmark(name.c_str(), row)->UseRealTime()->Unit(benchmark::kMillisecond);
}

/// Everything that the CPU does, on one thread or all.
void add_cpu(unsigned threads) {
  const std::string on = "/threads:" + std::to_string(threads);
  add("memcpy" + on, [=](benchmark::State& state) { memory_copy(state, threads); });
  add("runs/cpu" + on, [=](benchmark::State& state) { runs(state, {}, Device::kCpu, threads); });
  add("runs_streamed/cpu" + on,
      [=](benchmark::State& state) { streamed_runs(state, Device::kCpu, threads); });
}

/// How the scans grow with the number of groups (events), of segments, and of sizes; on one thread.
void add_scaling(Device device) {
  const std::string on = device == Device::kCpu ? "/cpu/" : "/cuda/";
  for (const std::uint64_t blocks : {16U, 128U, 1024U, 131072U}) {
    add("runs_by_group_blocks" + on + std::to_string(blocks),
        [=](benchmark::State& state) { runs(state, {.group_blocks = blocks}, device, 1); });
  }
  for (const std::uint64_t blocks : {1U, 4U, 16U, 128U, 1024U}) {
    const HeapShape shape{.segment_blocks = blocks};
    add("runs_by_segment_blocks" + on + std::to_string(blocks),
        [=](benchmark::State& state) { runs(state, shape, device, 1); });
    add("windows_by_segment_blocks" + on + std::to_string(blocks),
        [=](benchmark::State& state) { windows(state, shape, device); });
  }
  for (const std::uint64_t sizes : {1U, 16U, 64U, 256U}) {
    add("servability_by_sizes" + on + std::to_string(sizes),
        [=](benchmark::State& state) { servability(state, sizes, device); });
  }
}

[[maybe_unused]] const bool kRegistered = [] {
  add("read/threads:1", memory_read);
  add_cpu(1);
  if (usable_threads() > 1) add_cpu(usable_threads());
  add_scaling(Device::kCpu);
  if (!find_cuda_devices()) {
    add("cuda", [](benchmark::State& state) {
      state.SetLabel("not run: " + find_cuda_devices().error().describe());
      for (auto round : state)
        static_cast<void>(round);
    });
    return true;
  }
  add("runs/cuda", [](benchmark::State& state) { runs(state, {}, Device::kCuda, 1); });
  add("runs_streamed/cuda",
      [](benchmark::State& state) { streamed_runs(state, Device::kCuda, 1); });
  add_scaling(Device::kCuda);
  return true;
}();

}  // namespace
