// SPDX-License-Identifier: Apache-2.0
// The runtime's calls about streams and events.
#include "virtual_cuda/core/call.hpp"

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

// The stream of a handle, handed to `body`; a handle that is none fails the call.
template <class Body>
std::int32_t stream_call(const char* name, StreamHandle handle, Body&& body) {
  return runtime_call(name, [&](Call& call) -> Status {
    Stream* const stream = call.stream(handle);
    if (stream == nullptr) return Status::kInvalidHandle;
    return body(call, *stream);
  });
}

}  // namespace

extern "C" {

std::int32_t cudaStreamCreateWithPriority(StreamHandle* stream, unsigned flags, int priority) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    const StreamTraits traits{call.device().index(), flags, priority, false};
    *stream = handle_of(call.machine.timeline().create_stream(traits));
    return Status::kSuccess;
  });
}

std::int32_t cudaStreamCreateWithFlags(StreamHandle* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

std::int32_t cudaStreamCreate(StreamHandle* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}

std::int32_t cudaStreamDestroy(StreamHandle stream) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return call.machine.timeline().destroy_stream(number_of(stream));
  });
}

std::int32_t cudaStreamGetPriority(StreamHandle handle, int* priority) {
  return stream_call(__func__, handle, [&](Call&, const Stream& stream) -> Status {
    *priority = stream.traits.priority;
    return Status::kSuccess;
  });
}

std::int32_t cudaStreamGetFlags(StreamHandle handle, unsigned* flags) {
  return stream_call(__func__, handle, [&](Call&, const Stream& stream) -> Status {
    *flags = stream.traits.flags;
    return Status::kSuccess;
  });
}

std::int32_t cudaStreamGetId(StreamHandle handle, std::uint64_t* id) {
  return stream_call(__func__, handle, [&](Call&, const Stream& stream) -> Status {
    *id = stream.id;
    return Status::kSuccess;
  });
}

std::int32_t cudaStreamGetDevice(StreamHandle handle, int* ordinal) {
  return stream_call(__func__, handle, [&](Call& call, const Stream& stream) -> Status {
    *ordinal = call.machine.ordinal_of(stream.traits.device);
    return Status::kSuccess;
  });
}

std::int32_t cudaStreamSynchronize(StreamHandle handle) {
  return stream_call(__func__, handle, [](Call& call, Stream& stream) -> Status {
    const Status status = call.machine.timeline().synchronize_stream(stream, call.thread.capture);
    if (status == Status::kSuccess) call.machine.pool(stream.traits.device).trim_to_threshold();
    return status;
  });
}

std::int32_t cudaStreamQuery(StreamHandle handle) {
  return stream_call(__func__, handle, [](Call& call, Stream& stream) -> Status {
    return call.machine.timeline().query_stream(stream, call.thread.capture);
  });
}

std::int32_t cudaStreamWaitEvent(StreamHandle handle, EventHandle event, unsigned flags) {
  return stream_call(__func__, handle, [&](Call& call, Stream& stream) -> Status {
    return call.machine.timeline().wait_event(stream, number_of(event), flags);
  });
}

std::int32_t cudaEventCreateWithFlags(EventHandle* event, unsigned flags) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    static_cast<void>(call.device());
    *event = handle_of(call.machine.timeline().create_event(flags));
    return Status::kSuccess;
  });
}

std::int32_t cudaEventCreate(EventHandle* event) {
  return cudaEventCreateWithFlags(event, 0);
}

std::int32_t cudaEventDestroy(EventHandle event) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return call.machine.timeline().destroy_event(number_of(event));
  });
}

std::int32_t cudaEventRecordWithFlags(EventHandle event, StreamHandle handle, unsigned flags) {
  return stream_call(__func__, handle, [&](Call& call, Stream& stream) -> Status {
    return call.machine.timeline().record(number_of(event), stream, flags);
  });
}

std::int32_t cudaEventRecord(EventHandle event, StreamHandle handle) {
  return cudaEventRecordWithFlags(event, handle, 0);
}

std::int32_t cudaEventQuery(EventHandle event) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return call.machine.timeline().query_event(number_of(event), call.thread.capture);
  });
}

std::int32_t cudaEventSynchronize(EventHandle event) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return call.machine.timeline().synchronize_event(number_of(event), call.thread.capture);
  });
}

std::int32_t cudaEventElapsedTime(float* milliseconds, EventHandle start, EventHandle end) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return call.machine.timeline().elapsed({number_of(start), number_of(end)}, milliseconds);
  });
}

}  // extern "C"
