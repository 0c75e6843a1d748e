// SPDX-License-Identifier: Apache-2.0
// Streams, events and captures as plain records; the rules that move them are in captures.hpp and
// timeline.hpp.
#pragma once

#include "virtual_cuda/timeline/graph.hpp"
#include "virtual_cuda/timeline/moment.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

namespace fragscope::virtual_cuda {

struct Capture;

/// cudaStreamCaptureMode.
enum class CaptureMode : std::int32_t { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

/// What captures need to know of a thread. Its address is the thread's identity.
struct CaptureThread {
  CaptureMode mode = CaptureMode::kGlobal;
};

// cudaStreamNonBlocking, cudaEventDisableTiming, cudaEventRecordExternal and cudaEventWaitExternal.
inline constexpr std::uint32_t kStreamNonBlocking = 1;
inline constexpr std::uint32_t kEventDisableTiming = 2;
inline constexpr std::uint32_t kEventExternal = 1;

struct StreamTraits {
  int device = 0;
  std::uint32_t flags = 0;
  int priority = 0;
  bool legacy = false;  ///< The default stream of its device.
};

struct Stream {
  StreamTraits traits;
  std::uint64_t id = 0;
  Moment busy_until;
  std::shared_ptr<Hold> hold;  ///< Set while what comes is held back.
  Capture* capture = nullptr;
  std::vector<Node*> frontier;  ///< In a capture: what the next node depends on.

  [[nodiscard]] bool blocking() const { return (traits.flags & kStreamNonBlocking) == 0; }
};

struct Event {
  std::uint32_t flags = 0;
  bool recorded = false;
  Moment at;
  std::uint64_t capture_id = 0;  ///< Not 0: last recorded inside this capture.
  std::vector<Node*> frontier;   ///< Then: what a stream that waits for it depends on.
};

struct Capture {
  std::uint64_t id = 0;
  std::uint64_t graph_handle = 0;
  Graph* graph = nullptr;
  bool owns_graph = true;  ///< False: the program gave the graph to capture into.
  CaptureMode mode = CaptureMode::kGlobal;
  const CaptureThread* thread = nullptr;
  Stream* origin = nullptr;
  std::set<Stream*> streams;
  bool invalid = false;
};

}  // namespace fragscope::virtual_cuda
