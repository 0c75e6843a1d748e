// SPDX-License-Identifier: Apache-2.0
// The answers of a build without CUDA; scans_cuda.cu has the others.
#include "kernels/cuda/scans_cuda.hpp"

namespace fragscope::kernels {
namespace {

tl::unexpected<Error> no_cuda() {
  return failure(ErrorCode::kUnreadable, "no GPU can be used: built without CUDA");
}

}  // namespace

Result<void> find_runs_cuda(const BlockTable&, const RunsOutput&) {
  return no_cuda();
}

Result<void> find_servability_cuda(const FillServability&) {
  return no_cuda();
}

Result<void> find_windows_cuda(std::span<const PackedBlock>,
                               std::span<const std::uint64_t>,
                               std::uint64_t,
                               std::span<Window>) {
  return no_cuda();
}

Result<void> stream_runs_cuda(const ChunkRoom&, const FillChunk&, const TakeRuns&) {
  return no_cuda();
}

}  // namespace fragscope::kernels
