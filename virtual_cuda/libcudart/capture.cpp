// SPDX-License-Identifier: Apache-2.0
// The runtime's calls about stream capture. Those whose form differs between CUDA 12 and 13 are in
// versions.cpp.
#include "virtual_cuda/libcudart/capture.hpp"

#include <algorithm>
#include <utility>

namespace fragscope::virtual_cuda {
namespace {

// cudaStreamCaptureStatus.
enum class CaptureStatus : std::int32_t { kNone = 0, kActive = 1, kInvalidated = 2 };

CaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) return CaptureStatus::kNone;
  return stream.capture->invalid ? CaptureStatus::kInvalidated : CaptureStatus::kActive;
}

constexpr unsigned kSetDependencies = 1;  // cudaStreamSetCaptureDependencies; 0 adds.

bool is_mode(std::int32_t mode) {
  return mode >= 0 && mode <= 2;
}

}  // namespace

std::vector<Node*> nodes_of(NodeList list) {
  std::vector<Node*> nodes;
  nodes.reserve(list.count);
  for (std::size_t i = 0; i < list.count; ++i)
    nodes.push_back(static_cast<Node*>(list.nodes[i]));
  return nodes;
}

std::int32_t capture_info(const char* name, StreamHandle handle, const CaptureInfo& out) {
  return runtime_call(name, [&](Call& call) -> Status {
    const Stream* const stream = call.stream(handle);
    if (stream == nullptr) return Status::kInvalidHandle;
    *out.status = static_cast<std::int32_t>(status_of(*stream));
    const Capture* const capture = stream->capture;
    if (out.id != nullptr) *out.id = capture == nullptr ? 0 : capture->id;
    if (out.graph != nullptr) {
      *out.graph = capture == nullptr ? nullptr : handle_of(capture->graph_handle);
    }
    if (out.dependencies != nullptr) {
      // A vector of pointers to nodes is an array of node handles.
      *out.dependencies = capture == nullptr
                              ? nullptr
                              : reinterpret_cast<const NodeHandle*>(stream->frontier.data());
    }
    if (out.dependency_count != nullptr) {
      *out.dependency_count = capture == nullptr ? 0 : stream->frontier.size();
    }
    if (out.edges != nullptr) *out.edges = nullptr;  // All edges are of the default kind.
    return Status::kSuccess;
  });
}

std::int32_t update_capture_dependencies(const char* name,
                                         StreamHandle handle,
                                         NodeList list,
                                         unsigned flags) {
  return runtime_call(name, [&](Call& call) -> Status {
    Stream* const stream = call.stream(handle);
    if (stream == nullptr) return Status::kInvalidHandle;
    if (stream->capture == nullptr) return Status::kIllegalState;
    if (flags == kSetDependencies) stream->frontier.clear();
    for (Node* const node : nodes_of(list)) {
      auto& frontier = stream->frontier;
      if (std::find(frontier.begin(), frontier.end(), node) == frontier.end()) {
        frontier.push_back(node);
      }
    }
    return Status::kSuccess;
  });
}

}  // namespace fragscope::virtual_cuda

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

extern "C" {

std::int32_t cudaStreamBeginCapture(StreamHandle handle, std::int32_t mode) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    Stream* const stream = call.stream(handle);
    if (stream == nullptr) return Status::kInvalidHandle;
    if (!is_mode(mode)) return Status::kInvalidValue;
    Captures::Start start;
    start.stream = stream;
    start.mode = static_cast<CaptureMode>(mode);
    return call.machine.timeline().begin_capture(std::move(start), call.thread.capture);
  });
}

std::int32_t cudaStreamBeginCaptureToGraph(StreamHandle handle,
                                           GraphHandle graph,
                                           const NodeHandle* dependencies,
                                           const EdgeData*,
                                           std::size_t dependency_count,
                                           std::int32_t mode) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    Captures::Start start;
    start.stream = call.stream(handle);
    start.graph = call.machine.timeline().find_graph(number_of(graph));
    if (start.stream == nullptr) return Status::kInvalidHandle;
    if (start.graph == nullptr || !is_mode(mode)) return Status::kInvalidValue;
    start.graph_handle = number_of(graph);
    start.owns_graph = false;
    start.mode = static_cast<CaptureMode>(mode);
    start.dependencies = nodes_of({dependencies, dependency_count});
    return call.machine.timeline().begin_capture(std::move(start), call.thread.capture);
  });
}

std::int32_t cudaStreamEndCapture(StreamHandle handle, GraphHandle* graph) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    *graph = nullptr;
    Stream* const stream = call.stream(handle);
    if (stream == nullptr) return Status::kInvalidHandle;
    std::uint64_t made = 0;
    const Status status = call.machine.timeline().end_capture(*stream, call.thread.capture, &made);
    *graph = handle_of(made);
    return status;
  });
}

std::int32_t cudaStreamIsCapturing(StreamHandle handle, std::int32_t* status) {
  return capture_info(__func__, handle, {.status = status});
}

std::int32_t cudaThreadExchangeStreamCaptureMode(std::int32_t* mode) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (!is_mode(*mode)) return Status::kInvalidValue;
    const CaptureMode previous = call.thread.capture.mode;
    call.thread.capture.mode = static_cast<CaptureMode>(*mode);
    *mode = static_cast<std::int32_t>(previous);
    return Status::kSuccess;
  });
}

}  // extern "C"
