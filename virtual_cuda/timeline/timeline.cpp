// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/timeline/timeline.hpp"

#include <algorithm>
#include <utility>

namespace fragscope::virtual_cuda {
namespace {

// Where handles begin. Far from every address that a program can have, so that one taken for the
// other shows; different, so that an event is no stream.
constexpr std::uint64_t kStreamHandles = 0x6100'0000'0000;
constexpr std::uint64_t kEventHandles = 0x6200'0000'0000;
constexpr std::uint64_t kGraphHandles = 0x6300'0000'0000;
constexpr std::uint64_t kExecutableHandles = 0x6400'0000'0000;
constexpr std::uint64_t kLastDefaultStream = 2;
// What CUDA answers for two events with nothing between them: its timer's resolution.
constexpr float kShortestMs = 0.001F;

}  // namespace

Timeline::Timeline(int device_count)
    : streams_(kStreamHandles)
    , events_(kEventHandles)
    , graphs_(kGraphHandles)
    , executables_(kExecutableHandles) {
  for (int device = 0; device < device_count; ++device) {
    default_streams_.push_back(std::make_unique<Stream>());
    default_streams_.back()->traits = {.device = device, .legacy = true};
    default_streams_.back()->id = ++last_stream_id_;
  }
}

std::uint64_t Timeline::create_stream(StreamTraits traits) {
  auto stream = std::make_unique<Stream>();
  stream->traits = traits;
  stream->id = ++last_stream_id_;
  return streams_.add(std::move(stream));
}

Status Timeline::destroy_stream(std::uint64_t handle) {
  const auto stream = streams_.remove(handle);
  if (!stream) return Status::kInvalidHandle;
  captures_.forget(*stream);
  return Status::kSuccess;
}

Stream* Timeline::find_stream(std::uint64_t handle, int current_device) const {
  if (handle > kLastDefaultStream) return streams_.find(handle);
  return default_streams_[static_cast<std::size_t>(current_device)].get();
}

Status Timeline::query_stream(Stream& stream, const CaptureThread& thread) {
  if (stream.capture != nullptr) {
    stream.capture->invalid = true;
    return Status::kCaptureUnsupported;
  }
  if (const Status status = captures_.check_unsafe_call(thread); status != Status::kSuccess) {
    return status;
  }
  return clock_.poll(stream.busy_until) ? Status::kSuccess : Status::kNotReady;
}

Status Timeline::synchronize_stream(Stream& stream, const CaptureThread& thread) {
  if (stream.capture != nullptr) {
    stream.capture->invalid = true;
    return Status::kCaptureUnsupported;
  }
  if (const Status status = captures_.check_unsafe_call(thread); status != Status::kSuccess) {
    return status;
  }
  clock_.wait(stream.busy_until);
  return Status::kSuccess;
}

Status Timeline::synchronize_device(int device, const CaptureThread& thread) {
  if (const Status status = captures_.check_unsafe_call(thread); status != Status::kSuccess) {
    return status;
  }
  clock_.wait(default_streams_[static_cast<std::size_t>(device)]->busy_until);
  for (const auto& [handle, stream] : streams_.all()) {
    if (stream->traits.device == device) clock_.wait(stream->busy_until);
  }
  return Status::kSuccess;
}

void Timeline::hold(Stream& stream) {
  if (!stream.hold || stream.hold->released) stream.hold = std::make_shared<Hold>();
}

void Timeline::release_hold(Stream& stream) {
  if (stream.hold) stream.hold->released = true;
  stream.hold.reset();
}

std::uint64_t Timeline::create_event(std::uint32_t flags) {
  auto event = std::make_unique<Event>();
  event->flags = flags;
  return events_.add(std::move(event));
}

Status Timeline::destroy_event(std::uint64_t handle) {
  return events_.remove(handle) ? Status::kSuccess : Status::kInvalidHandle;
}

Status Timeline::record(std::uint64_t handle, Stream& stream, std::uint32_t flags) {
  Event* const event = events_.find(handle);
  if (event == nullptr) return Status::kInvalidHandle;
  if (stream.capture != nullptr) {
    if ((flags & kEventExternal) != 0) {
      return Captures::add(stream, {.kind = NodeKind::kEventRecord, .event = handle});
    }
    if (stream.capture->invalid) return Status::kCaptureInvalidated;
    event->recorded = true;
    event->capture_id = stream.capture->id;
    event->frontier = stream.frontier;
    return Status::kSuccess;
  }
  apply(stream, {.kind = NodeKind::kEventRecord, .event = handle});
  return Status::kSuccess;
}

Status Timeline::wait_event(Stream& stream, std::uint64_t handle, std::uint32_t flags) {
  const Event* const event = events_.find(handle);
  if (event == nullptr) return Status::kInvalidHandle;
  if ((flags & kEventExternal) != 0 && stream.capture != nullptr) {
    return Captures::add(stream, {.kind = NodeKind::kWaitEvent, .event = handle});
  }
  if (event->capture_id != 0) return captures_.join(stream, *event);
  if (!event->recorded) return Status::kSuccess;
  if (stream.capture != nullptr) {
    stream.capture->invalid = true;
    return Status::kCaptureIsolation;
  }
  apply(stream, {.kind = NodeKind::kWaitEvent, .event = handle});
  return Status::kSuccess;
}

Status Timeline::query_event(std::uint64_t handle, const CaptureThread& thread) {
  const Event* const event = events_.find(handle);
  if (event == nullptr) return Status::kInvalidHandle;
  if (const Status status = check_not_captured(*event); status != Status::kSuccess) return status;
  if (const Status status = captures_.check_unsafe_call(thread); status != Status::kSuccess) {
    return status;
  }
  return !event->recorded || clock_.poll(event->at) ? Status::kSuccess : Status::kNotReady;
}

Status Timeline::synchronize_event(std::uint64_t handle, const CaptureThread& thread) {
  const Event* const event = events_.find(handle);
  if (event == nullptr) return Status::kInvalidHandle;
  if (const Status status = check_not_captured(*event); status != Status::kSuccess) return status;
  if (const Status status = captures_.check_unsafe_call(thread); status != Status::kSuccess) {
    return status;
  }
  if (event->recorded) clock_.wait(event->at);
  return Status::kSuccess;
}

Status Timeline::elapsed(EventPair events, float* milliseconds) const {
  const Event* const start = events_.find(events.start);
  const Event* const end = events_.find(events.end);
  if (start == nullptr || end == nullptr || !start->recorded || !end->recorded ||
      ((start->flags | end->flags) & kEventDisableTiming) != 0) {
    return Status::kInvalidHandle;
  }
  if (start->capture_id != 0 || end->capture_id != 0) return Status::kCapturedEvent;
  for (const Event* const event : {start, end}) {
    if (event->at.time_ns > clock_.now_ns() || event->at.held()) return Status::kNotReady;
  }
  const auto start_ns = static_cast<double>(start->at.time_ns);
  const auto end_ns = static_cast<double>(end->at.time_ns);
  *milliseconds = end_ns == start_ns ? kShortestMs : static_cast<float>((end_ns - start_ns) / 1e6);
  return Status::kSuccess;
}

Status Timeline::enqueue(Stream& stream, Work work, const CaptureThread& thread) {
  if (stream.capture != nullptr) return Captures::add(stream, std::move(work));
  if (stream.traits.legacy) {
    const Status status = captures_.check_legacy_work(thread);
    if (status != Status::kSuccess) return status;
  }
  apply(stream, work);
  return Status::kSuccess;
}

Status Timeline::launch(Stream& stream, std::uint64_t executable, const CaptureThread& thread) {
  const Executable* const found = executables_.find(executable);
  if (found == nullptr) return Status::kInvalidHandle;
  if (stream.capture != nullptr) {
    // A child graph is one node; its parts happen in order when that node runs.
    Work whole{.kind = NodeKind::kGraph};
    for (const Work& work : found->work)
      whole.duration_ns += work.duration_ns;
    whole.action = [work = found->work] {
      for (const Work& part : work) {
        if (part.action) part.action();
      }
    };
    return Captures::add(stream, std::move(whole));
  }
  if (stream.traits.legacy) {
    const Status status = captures_.check_legacy_work(thread);
    if (status != Status::kSuccess) return status;
  }
  for (const Work& work : found->work)
    apply(stream, work);
  return Status::kSuccess;
}

Status Timeline::begin_capture(Captures::Start start, const CaptureThread& thread) {
  if (start.graph == nullptr) {
    start.graph_handle = create_graph();
    start.graph = find_graph(start.graph_handle);
    start.owns_graph = true;
  }
  const std::uint64_t handle = start.graph_handle;
  const bool owned = start.owns_graph;
  const Status status = captures_.begin(std::move(start), thread);
  if (status != Status::kSuccess && owned) static_cast<void>(destroy_graph(handle));
  return status;
}

Status Timeline::end_capture(Stream& stream, const CaptureThread& thread, std::uint64_t* graph) {
  const Captures::Ended ended = captures_.end(stream, thread);
  *graph = ended.status == Status::kSuccess ? ended.graph_handle : 0;
  if (ended.status != Status::kSuccess && ended.owned_graph) {
    static_cast<void>(destroy_graph(ended.graph_handle));
  }
  return ended.status;
}

std::uint64_t Timeline::create_graph() {
  return graphs_.add(std::make_unique<Graph>());
}

Status Timeline::destroy_graph(std::uint64_t handle) {
  const auto graph = graphs_.remove(handle);
  if (!graph) return Status::kInvalidValue;
  graph->objects().release_all(due_);
  return Status::kSuccess;
}

Status Timeline::instantiate(std::uint64_t graph, std::uint64_t flags, std::uint64_t* executable) {
  Graph* const found = graphs_.find(graph);
  if (found == nullptr) return Status::kInvalidValue;
  auto made = std::make_unique<Executable>();
  made->flags = flags;
  for (const Node* const node : found->in_order())
    made->work.push_back(node->work);
  made->objects = found->objects().retain_all();
  *executable = executables_.add(std::move(made));
  return Status::kSuccess;
}

Status Timeline::destroy_executable(std::uint64_t handle) {
  const auto executable = executables_.remove(handle);
  if (!executable) return Status::kInvalidValue;
  executable->objects.release_all(due_);
  return Status::kSuccess;
}

void Timeline::apply(Stream& stream, const Work& work) {
  order_with_legacy_stream(stream);
  if (work.kind == NodeKind::kWaitEvent) {
    const Event* const event = events_.find(work.event);
    if (event != nullptr && event->recorded) stream.busy_until.join(event->at);
    return;
  }
  if (stream.hold && !stream.hold->released) stream.busy_until.add_hold(stream.hold);
  if (work.kind == NodeKind::kEventRecord) {
    Event* const event = events_.find(work.event);
    if (event == nullptr) return;
    event->recorded = true;
    event->capture_id = 0;
    event->frontier.clear();
    event->at = stream.busy_until;
    event->at.time_ns = std::max(event->at.time_ns, clock_.now_ns());
    return;
  }
  stream.busy_until.time_ns =
      std::max(stream.busy_until.time_ns, clock_.now_ns()) + work.duration_ns;
  if (work.action) due_.push_back(work.action);
}

void Timeline::order_with_legacy_stream(Stream& stream) {
  if (stream.traits.legacy) {
    for (const auto& [handle, other] : streams_.all()) {
      const bool same_device = other->traits.device == stream.traits.device;
      if (same_device && other->blocking()) stream.busy_until.join(other->busy_until);
    }
  } else if (stream.blocking()) {
    const auto device = static_cast<std::size_t>(stream.traits.device);
    stream.busy_until.join(default_streams_[device]->busy_until);
  }
}

Status Timeline::check_not_captured(const Event& event) const {
  if (event.capture_id == 0) return Status::kSuccess;
  if (Capture* const capture = captures_.find(event.capture_id)) capture->invalid = true;
  return Status::kCapturedEvent;
}

}  // namespace fragscope::virtual_cuda
