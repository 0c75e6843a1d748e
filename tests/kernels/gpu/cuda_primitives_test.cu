// SPDX-License-Identifier: Apache-2.0
// The CUDA form of the primitives, by the checks that the host form passes.
#include "kernels/algorithm/run_scan.hpp"
#include "kernels/primitives/cuda_form.cuh"
#include "tests/kernels/gpu/gpu_test.hpp"
#include "tests/kernels/heaps.hpp"
#include "tests/kernels/primitive_checks.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace fragscope::kernels {
namespace {

void must_succeed(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return;
  ADD_FAILURE() << describe_cuda_error(call, error);
  std::abort();  // Nothing that follows would mean anything.
}

/// Copies vectors to the device and back.
struct CudaMemory {
  template <class T>
  [[nodiscard]] DeviceBuffer<T> put(const std::vector<T>& values) const {
    auto buffer = DeviceBuffer<T>::make(values.size());
    must_succeed("cudaMalloc", buffer ? cudaSuccess : cudaErrorMemoryAllocation);
    must_succeed(
        "cudaMemcpy",
        cudaMemcpy(
            buffer->data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return *std::move(buffer);
  }
  template <class T>
  [[nodiscard]] std::vector<T> get(const DeviceBuffer<T>& buffer) const {
    std::vector<T> values(buffer.size());
    must_succeed(
        "cudaMemcpy",
        cudaMemcpy(values.data(), buffer.data(), buffer.size_bytes(), cudaMemcpyDeviceToHost));
    return values;
  }
};

class CudaPrimitives : public GpuTest {
 protected:
  template <class Shape>
  void check_tiles(std::initializer_list<std::uint64_t> more) {
    constexpr std::uint64_t kTile = Shape::kTile;
    for (const std::uint64_t count :
         {std::uint64_t{0}, std::uint64_t{1}, kTile - 1, kTile, kTile + 1, 5 * kTile + 3}) {
      check_for_tiles<Shape>(form_, CudaMemory{}, count, test_seed() + count);
    }
    for (const std::uint64_t count : more)
      check_for_tiles<Shape>(form_, CudaMemory{}, count, test_seed());
  }

  CudaForm form_{nullptr};
};

TEST_F(CudaPrimitives, SmallTilesKeepTheOrderOfTheirItems) {
  check_tiles<TileShape<32, 1>>({});
  check_tiles<TileShape<64, 3>>({});
  check_tiles<TileShape<256, 8>>({});
}

TEST_F(CudaPrimitives, TilesKeepTheOrderOfTheirItems) {
  check_tiles<TileShape<128, 4>>({1'000'003});
  check_tiles<TileShape<256, 8>>({10'000'019});
}

TEST_F(CudaPrimitives, SmallScansKeepTheOrderOfTheirItems) {
  for (const std::uint64_t count : {0, 1, 31, 1000, 20000})
    check_scan(form_, CudaMemory{}, count, test_seed());
}

TEST_F(CudaPrimitives, ScansKeepTheOrderOfTheirItems) {
  check_scan(form_, CudaMemory{}, 10'000'019, test_seed());
}

TEST_F(CudaPrimitives, SmallForEachCallsOncePerIndex) {
  for (const std::uint64_t count : {0, 1, 255, 20000})
    check_for_each(form_, CudaMemory{}, count);
}

TEST_F(CudaPrimitives, ForEachCallsOncePerIndex) {
  check_for_each(form_, CudaMemory{}, 10'000'019);
}

TEST_F(CudaPrimitives, SmallReductionsJoinWhatIsInEachSegment) {
  check_reduce_segments(form_, CudaMemory{}, 0, 1, 0);
  check_reduce_segments(form_, CudaMemory{}, 1000, 3, 0);
  check_reduce_segments(form_, CudaMemory{}, 20000, 20000, std::uint64_t{1} << 40);
}

TEST_F(CudaPrimitives, ReductionsJoinWhatIsInEachSegment) {
  check_reduce_segments(form_, CudaMemory{}, 1'000'003, 100, 0);
  check_reduce_segments(form_, CudaMemory{}, 1'000'003, 1'000'003, 7);
}

}  // namespace
}  // namespace fragscope::kernels
