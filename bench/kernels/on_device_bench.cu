// SPDX-License-Identifier: Apache-2.0
// The run scan of a table that lies on the GPU already, beside a copy there in the same run, by the
// GPU's own clock. Part of kernels_bench.
#include "bench/kernels/made_heap.hpp"
#include "kernels/algorithm/run_scan.hpp"
#include "kernels/cuda/cuda_buffer.hpp"
#include "kernels/cuda_devices.hpp"
#include "kernels/primitives/cuda_form.cuh"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace fragscope::kernels {
namespace {

/// Ends the benchmark where a CUDA call fails; its answer would be worth nothing.
void must_succeed(const Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "%s\n", result.error().describe().c_str());
  std::exit(1);
}

template <class T>
DeviceBuffer<T> on_device(const std::vector<T>& values) {
  auto buffer = DeviceBuffer<T>::make(values.size());
  must_succeed(buffer ? Result<void>{} : tl::unexpected(buffer.error()));
  must_succeed(cuda_result(
      "cudaMemcpy",
      cudaMemcpy(buffer->data(), values.data(), buffer->size_bytes(), cudaMemcpyHostToDevice)));
  return *std::move(buffer);
}

/// Times `work` by events around it.
void time_on_device(benchmark::State& state, const std::function<Result<void>()>& work) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  must_succeed(cuda_result("cudaEventCreate", cudaEventCreate(&begin)));
  must_succeed(cuda_result("cudaEventCreate", cudaEventCreate(&end)));
  must_succeed(work());  // The first time brings up what later ones find.
  for (auto round : state) {
    must_succeed(cuda_result("cudaEventRecord", cudaEventRecord(begin)));
    must_succeed(work());
    must_succeed(cuda_result("cudaEventRecord", cudaEventRecord(end)));
    must_succeed(cuda_result("cudaEventSynchronize", cudaEventSynchronize(end)));
    float milliseconds = 0;
    must_succeed(
        cuda_result("cudaEventElapsedTime", cudaEventElapsedTime(&milliseconds, begin, end)));
    state.SetIterationTime(milliseconds / 1e3);
  }
  static_cast<void>(cudaEventDestroy(begin));
  static_cast<void>(cudaEventDestroy(end));
}

void count_bytes(benchmark::State& state, std::uint64_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

/// As many blocks as on the host, sixteen times over: 2 GiB, far more than any cache.
constexpr std::uint64_t kCopies = 16;

void device_copy(benchmark::State& state) {
  auto from = DeviceBuffer<PackedBlock>::make(kCopies * kLargeBlocks);
  auto to = DeviceBuffer<PackedBlock>::make(kCopies * kLargeBlocks);
  if (!from || !to) return state.SkipWithError("not enough memory on the device");
  time_on_device(state, [&] {
    return cuda_result(
        "cudaMemcpyAsync",
        cudaMemcpyAsync(to->data(), from->data(), from->size_bytes(), cudaMemcpyDeviceToDevice));
  });
  count_bytes(state, 2 * from->size_bytes());
}

void runs_on_device(benchmark::State& state, std::uint64_t group_blocks) {
  const MadeHeap& heap = made_heap({.group_blocks = group_blocks});
  std::vector<PackedBlock> blocks;
  std::vector<std::uint64_t> begins{0};
  blocks.reserve(kCopies * heap.blocks.size());
  for (std::uint64_t copy = 0; copy < kCopies; ++copy) {
    for (std::uint64_t group = 0; group < heap.groups(); ++group)
      begins.push_back(copy * heap.blocks.size() + heap.group_begins[group + 1]);
    blocks.insert(blocks.end(), heap.blocks.begin(), heap.blocks.end());
  }
  const std::uint64_t groups = begins.size() - 1;
  const auto device_blocks = on_device(blocks);
  const auto device_begins = on_device(begins);
  const auto runs = on_device(std::vector<GroupRuns>(groups));
  CudaForm form(nullptr);
  auto scan = RunScan<GpuRunTile, CudaForm>::make(form, blocks.size());
  must_succeed(scan ? Result<void>{} : tl::unexpected(scan.error()));
  const auto work = [&] {
    return cuda_result("cudaMemsetAsync", cudaMemsetAsync(runs.data(), 0, runs.size_bytes()))
        .and_then([&] {
          return scan->run(form,
                           device_blocks.data(),
                           blocks.size(),
                           {device_begins.data(), groups},
                           {runs.data(), nullptr});
        });
  };
  must_succeed(work());
  std::vector<GroupRuns> found(groups);
  must_succeed(cuda_result(
      "cudaMemcpy",
      cudaMemcpy(found.data(), runs.data(), runs.size_bytes(), cudaMemcpyDeviceToHost)));
  for (std::uint64_t group = 0; group < groups; ++group) {
    if (found[group] != heap.runs[group % heap.groups()]) return state.SkipWithError("wrong runs");
  }
  time_on_device(state, work);
  count_bytes(state, blocks.size() * sizeof(PackedBlock) + groups * sizeof(GroupRuns));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(blocks.size()));
}

[[maybe_unused]] const bool kRegistered = [] {
  if (!find_cuda_devices()) return false;  // kernels_bench.cpp says so.
  benchmark::RegisterBenchmark("device_copy", device_copy)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  for (const std::uint64_t group_blocks : {16, 128, 1024, 131072}) {
    const std::string name = "runs_on_device_by_group_blocks/" + std::to_string(group_blocks);
    benchmark::RegisterBenchmark(name.c_str(), runs_on_device, group_blocks)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace fragscope::kernels
