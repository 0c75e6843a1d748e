// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/timeline/captures.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace fragscope::virtual_cuda {
namespace {

// Everything the frontier depends on, itself included.
std::unordered_set<const Node*> ancestors(const std::vector<Node*>& frontier) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> open(frontier.begin(), frontier.end());
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    if (seen.insert(node).second) open.insert(open.end(), node->in.begin(), node->in.end());
  }
  return seen;
}

// Whether every stream's work leads into that of the origin.
bool is_joined(const Capture& capture) {
  const auto reached = ancestors(capture.origin->frontier);
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const Stream* stream) {
    return std::all_of(stream->frontier.begin(), stream->frontier.end(), [&](const Node* node) {
      return reached.count(node) > 0;
    });
  });
}

}  // namespace

Status Captures::begin(Start start, const CaptureThread& thread) {
  Stream& stream = *start.stream;
  if (stream.traits.legacy) return Status::kCaptureUnsupported;
  if (stream.capture != nullptr) return Status::kIllegalState;
  auto capture = std::make_unique<Capture>();
  capture->id = ++last_id_;
  capture->graph_handle = start.graph_handle;
  capture->graph = start.graph;
  capture->owns_graph = start.owns_graph;
  capture->mode = start.mode;
  capture->thread = &thread;
  capture->origin = &stream;
  capture->streams.insert(&stream);
  stream.capture = capture.get();
  stream.frontier = std::move(start.dependencies);
  captures_.emplace(last_id_, std::move(capture));
  return Status::kSuccess;
}

Captures::Ended Captures::end(Stream& stream, const CaptureThread& thread) {
  if (stream.capture == nullptr) return {.status = Status::kIllegalState};
  Capture& capture = *stream.capture;
  if (capture.origin != &stream) {
    capture.invalid = true;
    return {.status = Status::kCaptureUnmatched};
  }
  if (capture.mode != CaptureMode::kRelaxed && capture.thread != &thread) {
    return {.status = Status::kCaptureWrongThread};
  }
  Ended ended{Status::kSuccess, capture.graph_handle, capture.owns_graph};
  if (capture.invalid) {
    ended.status = Status::kCaptureInvalidated;
  } else if (!is_joined(capture)) {
    ended.status = Status::kCaptureUnjoined;
  }
  for (Stream* const member : capture.streams) {
    member->capture = nullptr;
    member->frontier.clear();
  }
  captures_.erase(capture.id);
  return ended;
}

Status Captures::join(Stream& stream, const Event& event) {
  Capture* const capture = find(event.capture_id);
  if (capture == nullptr) return Status::kSuccess;  // It has ended, and so has what it waited for.
  if (capture->invalid) return Status::kCaptureInvalidated;
  if (stream.capture != nullptr && stream.capture != capture) {
    capture->invalid = true;
    stream.capture->invalid = true;
    return Status::kCaptureMerge;
  }
  if (stream.capture == nullptr) {
    stream.capture = capture;
    capture->streams.insert(&stream);
    stream.frontier.clear();
  }
  for (Node* const node : event.frontier) {
    if (std::find(stream.frontier.begin(), stream.frontier.end(), node) == stream.frontier.end()) {
      stream.frontier.push_back(node);
    }
  }
  return Status::kSuccess;
}

Status Captures::add(Stream& stream, Work work) {
  if (stream.capture->invalid) return Status::kCaptureInvalidated;
  Node* const node = stream.capture->graph->add(std::move(work), stream.frontier);
  stream.frontier = {node};
  return Status::kSuccess;
}

Status Captures::check_unsafe_call(const CaptureThread& thread) {
  if (thread.mode == CaptureMode::kRelaxed) return Status::kSuccess;
  Status status = Status::kSuccess;
  for (const auto& [id, capture] : captures_) {
    const bool own = capture->thread == &thread;
    const bool forbidden =
        (capture->mode == CaptureMode::kGlobal && (own || thread.mode == CaptureMode::kGlobal)) ||
        (capture->mode == CaptureMode::kThreadLocal && own);
    if (!forbidden) continue;
    capture->invalid = true;
    status = Status::kCaptureUnsupported;
  }
  return status;
}

Status Captures::check_legacy_work(const CaptureThread& thread) {
  for (const auto& [id, capture] : captures_) {
    const bool concerned = capture->mode == CaptureMode::kGlobal &&
                           thread.mode == CaptureMode::kGlobal && capture->thread == &thread;
    if (!concerned || !capture->origin->blocking()) continue;
    capture->invalid = true;
    return Status::kCaptureImplicit;
  }
  return Status::kSuccess;
}

Capture* Captures::find(std::uint64_t id) const {
  const auto found = captures_.find(id);
  return found == captures_.end() ? nullptr : found->second.get();
}

void Captures::forget(Stream& stream) {
  if (stream.capture == nullptr) return;
  stream.capture->invalid = true;
  stream.capture->streams.erase(&stream);
}

}  // namespace fragscope::virtual_cuda
