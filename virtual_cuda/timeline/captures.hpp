// SPDX-License-Identifier: Apache-2.0
// The captures under way: how one begins, spreads over streams, is broken by a call that may not
// happen inside it, and ends. Part of the timeline.
#pragma once

#include "virtual_cuda/abi/status.hpp"
#include "virtual_cuda/timeline/stream.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace fragscope::virtual_cuda {

/// A capture's life:
///
///          begin              a forbidden call            end
///   none ---------> active ---------------------> invalid -----> none, and no graph
///                     |  end
///                     +-----> none, and a graph
///
/// It spreads to a stream that waits for an event recorded in it, and must be joined back before
/// `end`.
class Captures {
 public:
  /// Where a capture begins and what its first node depends on.
  struct Start {
    Stream* stream = nullptr;
    CaptureMode mode = CaptureMode::kGlobal;
    Graph* graph = nullptr;
    std::uint64_t graph_handle = 0;
    bool owns_graph = true;
    std::vector<Node*> dependencies;
  };
  [[nodiscard]] Status begin(Start start, const CaptureThread& thread);

  /// How a capture ended. If it owned its graph and the status is no success, the graph must go.
  struct Ended {
    Status status = Status::kSuccess;
    std::uint64_t graph_handle = 0;
    bool owned_graph = false;
  };
  [[nodiscard]] Ended end(Stream& stream, const CaptureThread& thread);

  /// The stream waits for an event of this capture, and so becomes part of it.
  [[nodiscard]] Status join(Stream& stream, const Event& event);

  /// Adds work to the capture that the stream is in.
  [[nodiscard]] static Status add(Stream& stream, Work work);

  /// For calls that could block or change what a capture relies on. Breaks every capture that
  /// forbids them on this thread, and says so.
  [[nodiscard]] Status check_unsafe_call(const CaptureThread& thread);
  /// For work on the legacy stream, which would order it after every blocking stream.
  [[nodiscard]] Status check_legacy_work(const CaptureThread& thread);

  /// The capture of this id while it is under way, or null.
  [[nodiscard]] Capture* find(std::uint64_t id) const;
  /// The stream is destroyed: its capture is broken.
  void forget(Stream& stream);

 private:
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Capture>> captures_;
};

}  // namespace fragscope::virtual_cuda
