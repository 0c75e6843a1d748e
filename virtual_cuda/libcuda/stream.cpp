// SPDX-License-Identifier: Apache-2.0
// The driver's calls about streams and events. Their handles are the runtime's.
#include "virtual_cuda/core/call.hpp"

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

// The stream of a handle, handed to `body`; a handle that is none fails the call.
template <class Body>
std::int32_t stream_call(const char* name, StreamHandle handle, Body&& body) {
  return driver_call(name, [&](Call& call) -> Status {
    Stream* const stream = call.stream(handle);
    if (stream == nullptr) return Status::kInvalidHandle;
    return body(call, *stream);
  });
}

}  // namespace

extern "C" {

std::int32_t cuStreamCreate(StreamHandle* stream, unsigned flags) {
  return driver_call(__func__, [&](Call& call) -> Status {
    const StreamTraits traits{call.device().index(), flags, 0, false};
    *stream = handle_of(call.machine.timeline().create_stream(traits));
    return Status::kSuccess;
  });
}

std::int32_t cuStreamDestroy_v2(StreamHandle stream) {
  return driver_call(__func__, [&](Call& call) {
    return call.machine.timeline().destroy_stream(number_of(stream));
  });
}

std::int32_t cuStreamSynchronize(StreamHandle handle) {
  return stream_call(__func__, handle, [](Call& call, Stream& stream) {
    return call.machine.timeline().synchronize_stream(stream, call.thread.capture);
  });
}

std::int32_t cuStreamIsCapturing(StreamHandle handle, std::int32_t* status) {
  return stream_call(__func__, handle, [&](Call&, const Stream& stream) -> Status {
    // CU_STREAM_CAPTURE_STATUS_NONE, ACTIVE, INVALIDATED
    *status = stream.capture == nullptr ? 0 : stream.capture->invalid ? 2 : 1;
    return Status::kSuccess;
  });
}

std::int32_t cuThreadExchangeStreamCaptureMode(std::int32_t* mode) {
  return driver_call(__func__, [&](Call& call) -> Status {
    if (*mode < 0 || *mode > 2) return Status::kInvalidValue;
    const CaptureMode previous = call.thread.capture.mode;
    call.thread.capture.mode = static_cast<CaptureMode>(*mode);
    *mode = static_cast<std::int32_t>(previous);
    return Status::kSuccess;
  });
}

std::int32_t cuEventCreate(EventHandle* event, unsigned flags) {
  return driver_call(__func__, [&](Call& call) -> Status {
    static_cast<void>(call.device());
    *event = handle_of(call.machine.timeline().create_event(flags));
    return Status::kSuccess;
  });
}

std::int32_t cuEventDestroy_v2(EventHandle event) {
  return driver_call(__func__, [&](Call& call) {
    return call.machine.timeline().destroy_event(number_of(event));
  });
}

std::int32_t cuEventRecord(EventHandle event, StreamHandle handle) {
  return stream_call(__func__, handle, [&](Call& call, Stream& stream) {
    return call.machine.timeline().record(number_of(event), stream, 0);
  });
}

std::int32_t cuEventQuery(EventHandle event) {
  return driver_call(__func__, [&](Call& call) {
    return call.machine.timeline().query_event(number_of(event), call.thread.capture);
  });
}

std::int32_t cuEventSynchronize(EventHandle event) {
  return driver_call(__func__, [&](Call& call) {
    return call.machine.timeline().synchronize_event(number_of(event), call.thread.capture);
  });
}

}  // extern "C"
