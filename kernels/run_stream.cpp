// SPDX-License-Identifier: Apache-2.0
#include "kernels/run_stream.hpp"

#include "kernels/cpu/scans_cpu.hpp"
#include "kernels/cuda/scans_cuda.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::kernels {
namespace {

/// One buffer: the threads are all in the scan, and filling has none to run beside it.
Result<void> stream_runs_cpu(const ChunkRoom& room,
                             const FillChunk& fill,
                             const TakeRuns& take,
                             unsigned threads) {
  std::vector<PackedBlock> blocks(room.blocks);
  std::vector<std::uint64_t> begins(room.groups + 1);
  std::vector<GroupRuns> runs(room.groups);
  const Chunk chunk{blocks, begins};
  std::uint64_t first = 0;
  while (true) {
    begins[0] = 0;
    const Result<std::uint64_t> groups = fill(chunk);
    if (!groups) return tl::unexpected(groups.error());
    if (*groups == 0) return {};
    const Result<BlockTable> table = filled_table(chunk, *groups);
    if (!table) return tl::unexpected(table.error());
    const std::span<GroupRuns> found = std::span(runs).first(*groups);
    std::ranges::fill(found, GroupRuns{});
    find_runs_cpu(*table, threads, {found.data(), nullptr});
    if (Result<void> taken = take(first, found); !taken) return taken;
    first += *groups;
  }
}

}  // namespace

Result<BlockTable> filled_table(const Chunk& chunk, std::uint64_t groups) {
  if (groups >= chunk.group_begins.size()) {
    return failure(ErrorCode::kTooLarge,
                   "chunk: " + std::to_string(groups) + " groups in room for " +
                       std::to_string(chunk.group_begins.size() - 1));
  }
  const std::span<const std::uint64_t> begins = chunk.group_begins.first(groups + 1);
  if (begins.front() != 0 || begins.back() > chunk.blocks.size()) {
    return failure(ErrorCode::kTooLarge,
                   "chunk: blocks " + std::to_string(begins.front()) + " to " +
                       std::to_string(begins.back()) + " in room for " +
                       std::to_string(chunk.blocks.size()));
  }
  const BlockTable table{chunk.blocks.first(begins.back()), begins};
  if (Result<void> checked = check_table(table); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  return table;
}

Result<DeviceChoice> stream_runs(const ChunkRoom& room,
                                 std::uint64_t work_bytes,
                                 const FillChunk& fill,
                                 const TakeRuns& take,
                                 const ScanOptions& options) {
  Result<DeviceChoice> choice = choose_device(options.device, work_bytes);
  if (!choice) return choice;
  Result<void> ran = choice->device == Device::kCpu
                         ? stream_runs_cpu(room, fill, take, options.threads)
                         : stream_runs_cuda(room, fill, take);
  if (!ran) return tl::unexpected(std::move(ran.error()));
  return choice;
}

}  // namespace fragscope::kernels
