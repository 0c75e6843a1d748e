// SPDX-License-Identifier: Apache-2.0
// The order of things: streams, events, captures and the virtual clock, with the rules by which
// work on one moves the others. Everything that CUDA does "asynchronously" goes through here. Owned
// by the machine and used under its lock.
#pragma once

#include "virtual_cuda/abi/status.hpp"
#include "virtual_cuda/timeline/captures.hpp"
#include "virtual_cuda/timeline/registry.hpp"
#include "virtual_cuda/timeline/stream.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace fragscope::virtual_cuda {

/// Work on a stream is done at once by whoever gives it: what it does to memory is collected in
/// `due` and run by the calling thread before its call returns. What the stream remembers is when
/// that work counts as finished, and only queries, waits and measured times can tell the
/// difference.
class Timeline {
 public:
  explicit Timeline(int device_count);

  // Streams. Handles 0 and 1 mean the default stream of the current device, and so does 2, the
  // default stream of a thread, which programs must ask for at compile time.
  std::uint64_t create_stream(StreamTraits traits);
  [[nodiscard]] Status destroy_stream(std::uint64_t handle);
  [[nodiscard]] Stream* find_stream(std::uint64_t handle, int current_device) const;
  [[nodiscard]] Status query_stream(Stream& stream, const CaptureThread& thread);
  [[nodiscard]] Status synchronize_stream(Stream& stream, const CaptureThread& thread);
  [[nodiscard]] Status synchronize_device(int device, const CaptureThread& thread);
  /// Work that comes to the stream stays unfinished until `release_hold`, or until someone waits.
  static void hold(Stream& stream);
  static void release_hold(Stream& stream);

  // Events.
  std::uint64_t create_event(std::uint32_t flags);
  [[nodiscard]] Status destroy_event(std::uint64_t handle);
  [[nodiscard]] Status record(std::uint64_t event, Stream& stream, std::uint32_t flags);
  [[nodiscard]] Status wait_event(Stream& stream, std::uint64_t event, std::uint32_t flags);
  [[nodiscard]] Status query_event(std::uint64_t event, const CaptureThread& thread);
  [[nodiscard]] Status synchronize_event(std::uint64_t event, const CaptureThread& thread);
  struct EventPair {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
  };
  [[nodiscard]] Status elapsed(EventPair events, float* milliseconds) const;

  // Work.
  [[nodiscard]] Status enqueue(Stream& stream, Work work, const CaptureThread& thread);
  [[nodiscard]] Status launch(Stream& stream,
                              std::uint64_t executable,
                              const CaptureThread& thread);

  // Captures and graphs.
  [[nodiscard]] Status begin_capture(Captures::Start start, const CaptureThread& thread);
  [[nodiscard]] Status end_capture(Stream& stream,
                                   const CaptureThread& thread,
                                   std::uint64_t* graph);
  std::uint64_t create_graph();
  [[nodiscard]] Status destroy_graph(std::uint64_t handle);
  [[nodiscard]] Graph* find_graph(std::uint64_t handle) const { return graphs_.find(handle); }
  [[nodiscard]] Status instantiate(std::uint64_t graph,
                                   std::uint64_t flags,
                                   std::uint64_t* executable);
  [[nodiscard]] Status destroy_executable(std::uint64_t handle);
  [[nodiscard]] Executable* find_executable(std::uint64_t handle) const {
    return executables_.find(handle);
  }

  [[nodiscard]] Captures& captures() { return captures_; }
  [[nodiscard]] const Clock& clock() const { return clock_; }
  /// What the caller must run once it has let go of the lock, in this order.
  [[nodiscard]] std::vector<Action>& due() { return due_; }

 private:
  void apply(Stream& stream, const Work& work);
  void order_with_legacy_stream(Stream& stream);
  [[nodiscard]] Status check_not_captured(const Event& event) const;

  Clock clock_;
  Captures captures_;
  std::vector<std::unique_ptr<Stream>> default_streams_;
  Registry<Stream> streams_;
  Registry<Event> events_;
  Registry<Graph> graphs_;
  Registry<Executable> executables_;
  std::uint64_t last_stream_id_ = 0;
  std::vector<Action> due_;
};

}  // namespace fragscope::virtual_cuda
