// SPDX-License-Identifier: Apache-2.0
// The driver's calls that look into a capture. Graphs and their nodes are the runtime's; the forms
// are those without edge data, which a driver for CUDA 13 still has.
#include "virtual_cuda/core/call.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

extern "C" {

std::int32_t cuStreamGetCaptureInfo_v2(StreamHandle handle,
                                       std::int32_t* status,
                                       unsigned long long* id,
                                       GraphHandle* graph,
                                       const NodeHandle** dependencies,
                                       std::size_t* count) {
  return driver_call(__func__, [&](Call& call) -> Status {
    const Stream* const stream = call.stream(handle);
    if (stream == nullptr) return Status::kInvalidHandle;
    const Capture* const capture = stream->capture;
    // CU_STREAM_CAPTURE_STATUS_NONE, ACTIVE, INVALIDATED
    *status = capture == nullptr ? 0 : capture->invalid ? 2 : 1;
    if (capture == nullptr) return Status::kSuccess;
    if (id != nullptr) *id = capture->id;
    if (graph != nullptr) *graph = handle_of(capture->graph_handle);
    if (dependencies != nullptr) {
      // A vector of pointers to nodes is an array of node handles.
      *dependencies = reinterpret_cast<const NodeHandle*>(stream->frontier.data());
    }
    if (count != nullptr) *count = stream->frontier.size();
    return Status::kSuccess;
  });
}

std::int32_t cuGraphNodeGetDependencies(NodeHandle handle, NodeHandle* nodes, std::size_t* count) {
  return driver_call(__func__, [&](Call&) -> Status {
    const auto& inputs = static_cast<const Node*>(handle)->in;
    if (nodes == nullptr) {
      *count = inputs.size();
      return Status::kSuccess;
    }
    // Room beyond the last one is filled with null, and the count says how many there are.
    const std::size_t copied = std::min(*count, inputs.size());
    std::copy_n(inputs.begin(), copied, nodes);
    std::fill(nodes + copied, nodes + *count, nullptr);
    *count = copied;
    return Status::kSuccess;
  });
}

}  // extern "C"
