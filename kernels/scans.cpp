// SPDX-License-Identifier: Apache-2.0
#include "kernels/scans.hpp"

#include "kernels/cpu/scans_cpu.hpp"
#include "kernels/cuda/scans_cuda.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace fragscope::kernels {

Result<Runs> find_runs(const BlockTable& table, bool with_histogram, const ScanOptions& options) {
  Result<DeviceChoice> choice = choose_device(options.device, table.blocks.size_bytes());
  if (!choice) return tl::unexpected(std::move(choice.error()));
  Runs runs;
  runs.groups.resize(table.groups());
  if (with_histogram) runs.histogram.resize(table.groups() * kRunClasses);
  const RunsOutput output{runs.groups.data(), with_histogram ? runs.histogram.data() : nullptr};
  runs.ran = *std::move(choice);
  if (runs.ran.device == Device::kCpu) {
    find_runs_cpu(table, options.threads, output);
  } else if (Result<void> ran = find_runs_cuda(table, output); !ran) {
    return tl::unexpected(std::move(ran.error()));
  }
  return runs;
}

Result<Servability> find_servability(std::span<const GroupRuns> runs,
                                     std::span<const std::uint64_t> spare_bytes,
                                     std::span<const std::uint64_t> sizes,
                                     const ScanOptions& options) {
  if (std::ranges::adjacent_find(sizes, std::greater_equal<>{}) != sizes.end()) {
    return failure(ErrorCode::kUsage, "servability: sizes must rise");
  }
  if (!spare_bytes.empty() && spare_bytes.size() != runs.size()) {
    return failure(ErrorCode::kUsage,
                   "servability: " + std::to_string(spare_bytes.size()) + " spare bytes for " +
                       std::to_string(runs.size()) + " groups");
  }
  Servability found;
  found.sizes.assign(sizes.begin(), sizes.end());
  found.groups = runs.size();
  FillServability fill{.runs = runs.data(),
                       .spare_bytes = spare_bytes.empty() ? nullptr : spare_bytes.data(),
                       .groups = runs.size(),
                       .sizes = sizes.data(),
                       .size_count = static_cast<std::uint32_t>(sizes.size())};
  found.bits.resize(kSenses * sizes.size() * fill.words());
  found.first_failings.resize(kSenses * runs.size());
  fill.served = found.bits.data();
  fill.first_failing = found.first_failings.data();
  Result<DeviceChoice> choice =
      choose_device(options.device, runs.size_bytes() + found.bits.size() * sizeof(std::uint64_t));
  if (!choice) return tl::unexpected(std::move(choice.error()));
  found.ran = *std::move(choice);
  if (found.ran.device == Device::kCpu) {
    find_servability_cpu(fill, options.threads);
  } else if (Result<void> ran = find_servability_cuda(fill); !ran) {
    return tl::unexpected(std::move(ran.error()));
  }
  return found;
}

Result<Windows> find_windows(const BlockTable& table,
                             std::span<const std::uint64_t> segment_begins,
                             std::uint64_t size_bytes,
                             const ScanOptions& options) {
  if (size_bytes == 0) return failure(ErrorCode::kUsage, "windows: a request has bytes");
  Result<DeviceChoice> choice = choose_device(options.device, table.blocks.size_bytes());
  if (!choice) return tl::unexpected(std::move(choice.error()));
  Windows windows;
  windows.segments.resize(segment_begins.empty() ? 0 : segment_begins.size() - 1);
  windows.ran = *std::move(choice);
  if (windows.ran.device == Device::kCpu) {
    find_windows_cpu(table.blocks, segment_begins, size_bytes, options.threads, windows.segments);
  } else if (Result<void> ran =
                 find_windows_cuda(table.blocks, segment_begins, size_bytes, windows.segments);
             !ran) {
    return tl::unexpected(std::move(ran.error()));
  }
  return windows;
}

}  // namespace fragscope::kernels
