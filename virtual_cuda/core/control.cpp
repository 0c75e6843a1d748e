// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/core/control.h"

#include "virtual_cuda/core/call.hpp"
#include "virtual_cuda/core/options.hpp"
#include "virtual_cuda/device/fault_plan.hpp"

#include <string>

namespace fragscope::virtual_cuda {
namespace {

template <class Body>
int control_call(const char* name, Body&& body) {
  return locked_call(name, std::forward<Body>(body)) == Status::kSuccess ? 0 : -1;
}

// A figure of one device.
template <class Figure>
unsigned long long device_figure(const char* name, int ordinal, Figure&& figure) {
  unsigned long long value = 0;
  static_cast<void>(locked_call(name, [&](Call& call) -> Status {
    if (!call.machine.is_ordinal(ordinal)) return Status::kInvalidDevice;
    value = figure(call.machine.visible(ordinal));
    return Status::kSuccess;
  }));
  return value;
}

template <class Body>
int stream_control(const char* name, void* handle, Body&& body) {
  return control_call(name, [&](Call& call) -> Status {
    Stream* const stream = call.stream(handle);
    if (stream == nullptr) return Status::kInvalidHandle;
    body(*stream);
    return Status::kSuccess;
  });
}

}  // namespace
}  // namespace fragscope::virtual_cuda

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

int fragscope_vc_fail(const char* kind, unsigned long long nth, int onward) {
  return control_call(__func__, [&](Call& call) -> Status {
    const auto found = find_fault_kind(kind);
    if (!found || nth == 0) return Status::kInvalidValue;
    call.machine.faults().add({*found, nth, onward != 0});
    return Status::kSuccess;
  });
}

int fragscope_vc_clear_faults(const char* kind) {
  return control_call(__func__, [&](Call& call) -> Status {
    const auto found = find_fault_kind(kind);
    if (!found) return Status::kInvalidValue;
    call.machine.faults().clear(*found);
    return Status::kSuccess;
  });
}

unsigned long long fragscope_vc_call_count(const char* kind) {
  unsigned long long count = 0;
  static_cast<void>(locked_call(__func__, [&](Call& call) -> Status {
    const auto found = find_fault_kind(kind);
    if (found) count = call.machine.faults().call_count(*found);
    return Status::kSuccess;
  }));
  return count;
}

int fragscope_vc_set_neighbour(int device, unsigned long long bytes) {
  return control_call(__func__, [&](Call& call) -> Status {
    if (!call.machine.is_ordinal(device)) return Status::kInvalidDevice;
    call.machine.visible(device).set_neighbour_bytes(bytes);
    return Status::kSuccess;
  });
}

int fragscope_vc_hold_stream(void* stream) {
  return stream_control(__func__, stream, [](Stream& found) { Timeline::hold(found); });
}

int fragscope_vc_release_stream(void* stream) {
  return stream_control(__func__, stream, [](Stream& found) { Timeline::release_hold(found); });
}

unsigned long long fragscope_vc_now_ns(void) {
  unsigned long long now = 0;
  static_cast<void>(locked_call(__func__, [&](Call& call) -> Status {
    now = call.machine.timeline().clock().now_ns();
    return Status::kSuccess;
  }));
  return now;
}

unsigned long long fragscope_vc_total_bytes(int device) {
  return device_figure(__func__, device, [](const Device& found) { return found.total_bytes(); });
}

unsigned long long fragscope_vc_free_bytes(int device) {
  return device_figure(__func__, device, [](const Device& found) { return found.free_bytes(); });
}

unsigned long long fragscope_vc_used_bytes(int device) {
  return device_figure(__func__, device, [](const Device& found) { return found.used_bytes(); });
}

const char* fragscope_vc_check_options(const char* options) {
  static thread_local std::string error;
  const auto parsed = parse_options(options);
  if (parsed) return nullptr;
  error = parsed.error().message;
  return error.c_str();
}
