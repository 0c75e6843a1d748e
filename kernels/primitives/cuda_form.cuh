// SPDX-License-Identifier: Apache-2.0
// The primitives on CUB; `host_form.hpp` has their contract. All work goes into one stream and is
// not waited for. Used by .cu files, once a GPU was found.
#pragma once

#include "kernels/cuda/cuda_buffer.hpp"
#include "kernels/cuda/cuda_result.hpp"
#include "kernels/primitives/host_device.hpp"

#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cub/util_ptx.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace fragscope::kernels {

/// Joins the parts of a warp's threads that have the same key, and commits each key once.
template <class Body>
__device__ void commit_by_warp(const Body& body, typename Body::Part part) {
  constexpr int kWarp = 32;
  constexpr unsigned kAll = 0xffffffffU;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const typename Body::Part other = cub::ShuffleDown<kWarp>(part, distance, kWarp - 1, kAll);
    // Keys never fall, so equal ones have nothing else between them.
    if (lane + distance < kWarp && other.key == part.key) {
      part.value = typename Body::Add{}(part.value, other.value);
    }
  }
  const std::uint64_t left = __shfl_up_sync(kAll, part.key, 1);
  if (lane == 0 || left != part.key) body.commit(part);
}

template <class Shape, class Body>
__global__ void __launch_bounds__(Shape::kThreads)
    tiles_kernel(Body body, const typename Body::Item* items, std::uint64_t count) {
  using Item = typename Body::Item;
  using Summary = typename Body::Summary;
  using Load = cub::BlockLoad<Item, Shape::kThreads, Shape::kItems, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using Scan = cub::BlockScan<Summary, Shape::kThreads>;
  __shared__ typename Load::TempStorage load_storage;
  __shared__ typename Scan::TempStorage scan_storage;
  __shared__ typename Body::Context context;

  const std::uint64_t first = std::uint64_t{blockIdx.x} * Shape::kTile;
  const std::uint64_t left = count - first;
  const int in_tile = left < Shape::kTile ? static_cast<int>(left) : Shape::kTile;
  if (threadIdx.x == 0) context = body.open(first, first + static_cast<std::uint64_t>(in_tile));
  Item mine[Shape::kItems];
  if (in_tile == Shape::kTile) {
    Load(load_storage).Load(items + first, mine);
  } else {
    Load(load_storage).Load(items + first, mine, in_tile, Item{});
  }
  const int my_first = static_cast<int>(threadIdx.x) * Shape::kItems;
  const int have = min(max(in_tile - my_first, 0), Shape::kItems);

  Summary before{};
  Summary whole_tile{};
  Scan(scan_storage)
      .ExclusiveScan(
          body.summarise(mine, have), before, Summary{}, typename Body::Join{}, whole_tile);
  __syncthreads();  // The context is there for all.
  commit_by_warp(
      body, body.finish(context, first + static_cast<std::uint64_t>(my_first), mine, have, before));
  if (threadIdx.x == 0) body.close(blockIdx.x, whole_tile);
}

template <class Function>
__global__ void for_each_kernel(std::uint64_t count, Function function) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    function(i);
  }
}

/// An offset relative to the first one.
struct RelativeOffset {
  const std::uint64_t* begins = nullptr;
  __device__ std::uint64_t operator()(std::uint64_t i) const { return begins[i] - begins[0]; }
};

class CudaForm {
 public:
  template <class T>
  using Array = DeviceBuffer<T>;

  explicit CudaForm(cudaStream_t stream)
      : stream_(stream) {}

  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  template <class T>
  [[nodiscard]] Result<void> allocate(std::uint64_t count, Array<T>& array) {
    auto made = Array<T>::make(count);
    if (!made) return tl::unexpected(std::move(made.error()));
    array = *std::move(made);
    return {};
  }

  template <class Shape, class Body>
  [[nodiscard]] Result<void> for_tiles(const Body& body,
                                       const typename Body::Item* items,
                                       std::uint64_t count) {
    const std::uint64_t tiles = (count + Shape::kTile - 1) / Shape::kTile;
    if (tiles == 0) return {};
    tiles_kernel<Shape>
        <<<static_cast<unsigned>(tiles), Shape::kThreads, 0, stream_>>>(body, items, count);
    return cuda_result("tiles_kernel", cudaGetLastError());
  }

  template <class Input, class Operator, class T>
  [[nodiscard]] Result<void> scan(
      const Input& input, std::uint64_t count, Operator join, T before, T* output) {
    if (count == 0) return {};
    const auto inputs = indexed(input);
    return with_scratch("cub::DeviceScan::ExclusiveScan", [&](void* scratch, std::size_t& bytes) {
      return cub::DeviceScan::ExclusiveScan(
          scratch, bytes, inputs, output, join, before, count, stream_);
    });
  }

  template <class Function>
  [[nodiscard]] Result<void> for_each(std::uint64_t count, const Function& function) {
    if (count == 0) return {};
    // As many threads as the largest GPU keeps in flight, or fewer; the rest is done by their loop.
    constexpr std::uint64_t kThreads = 256;
    constexpr std::uint64_t kMostBlocks = 8192;
    const std::uint64_t blocks = std::min(kMostBlocks, (count + kThreads - 1) / kThreads);
    for_each_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_>>>(count, function);
    return cuda_result("for_each_kernel", cudaGetLastError());
  }

  template <class Input, class Operator, class T>
  [[nodiscard]] Result<void> reduce_segments(const Input& input,
                                             const std::uint64_t* begins,
                                             std::uint64_t segments,
                                             Operator join,
                                             T identity,
                                             T* output) {
    if (segments == 0) return {};
    const auto inputs = indexed(input);
    const auto offsets = indexed(RelativeOffset{begins});
    return with_scratch(
        "cub::DeviceSegmentedReduce::Reduce", [&](void* scratch, std::size_t& bytes) {
          return cub::DeviceSegmentedReduce::Reduce(scratch,
                                                    bytes,
                                                    inputs,
                                                    output,
                                                    static_cast<std::int64_t>(segments),
                                                    offsets,
                                                    offsets + 1,
                                                    join,
                                                    identity,
                                                    stream_);
        });
  }

 private:
  template <class Function>
  static auto indexed(const Function& function) {
    return thrust::make_transform_iterator(thrust::counting_iterator<std::uint64_t>(0), function);
  }

  /// CUB's calls come in pairs: how much scratch memory it takes, then the work.
  template <class Call>
  [[nodiscard]] Result<void> with_scratch(const char* name, const Call& call) {
    std::size_t bytes = 0;
    if (Result<void> asked = cuda_result(name, call(nullptr, bytes)); !asked) return asked;
    if (bytes > scratch_.size()) {
      if (Result<void> made = allocate(bytes, scratch_); !made) return made;
    }
    return cuda_result(name, call(scratch_.data(), bytes));
  }

  cudaStream_t stream_ = nullptr;
  DeviceBuffer<std::byte> scratch_;
};

}  // namespace fragscope::kernels
