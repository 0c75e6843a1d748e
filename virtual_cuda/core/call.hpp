// SPDX-License-Identifier: Apache-2.0
// One call of the program into CUDA. Every entry point is one expression:
//
//   return runtime_call(__func__, [&](Call& call) -> Status { ... });
//
// which takes the lock, runs the body, lets go of the lock, then runs what the program must see
// happen, and keeps exceptions on our side of the C boundary. Used by all libraries.
#pragma once

#include "virtual_cuda/abi/runtime_types.hpp"
#include "virtual_cuda/core/machine.hpp"

#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace fragscope::virtual_cuda {

/// A kernel launch between __cudaPushCallConfiguration and the launch itself.
struct PendingLaunch {
  Dim3 grid;
  Dim3 block;
  std::size_t shared_bytes;
  StreamHandle stream;
};

/// What CUDA keeps for each thread.
struct ThreadContext {
  int ordinal = 0;  ///< The current device, as CUDA numbers those it shows.
  Status last_error = Status::kSuccess;
  CaptureThread capture;
  std::vector<PendingLaunch> launches;
};

[[nodiscard]] ThreadContext& thread_context();

/// What a body works with. Lives as long as the lock is held.
class Call {
 public:
  explicit Call(Machine& owner)
      : machine(owner)
      , thread(thread_context()) {}

  Machine& machine;
  ThreadContext& thread;

  /// The current device. Its context exists from now on.
  [[nodiscard]] Device& device();
  /// The stream behind a handle, or null. The current device's context exists from now on.
  [[nodiscard]] Stream* stream(StreamHandle handle);
  /// For calls that may not happen during a capture.
  [[nodiscard]] Status check_unsafe();
  /// Gives work to the stream.
  [[nodiscard]] Status enqueue(StreamHandle handle, Work work);
};

/// Handles as our registries count them.
[[nodiscard]] inline std::uint64_t number_of(const void* handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}
[[nodiscard]] inline void* handle_of(std::uint64_t number) {
  return reinterpret_cast<void*>(number);  // NOLINT(performance-no-int-to-ptr)
}

/// For `trace`: one line for a call and what it answered.
void trace_call(const char* name, Status status);

/// Runs a body under the lock, and then what became due. Takes no part in errors.
template <class Body>
Status locked_call(const char* name, Body&& body) noexcept {
  try {
    Machine& machine = Machine::instance();
    Status status = machine.status();
    std::vector<Action> due;
    if (status == Status::kSuccess) {
      const std::lock_guard lock(machine.mutex());
      Call call(machine);
      status = body(call);
      due.swap(machine.timeline().due());
    }
    for (const Action& action : due)
      action();
    if (machine.options().trace) trace_call(name, status);
    return status;
  } catch (const std::bad_alloc&) {
    return Status::kOutOfMemory;
  } catch (...) {
    return Status::kUnknown;
  }
}

/// An entry point of the runtime: a failure is remembered for cudaGetLastError. Like the first call
/// of any program, it also initialises the driver.
template <class Body>
std::int32_t runtime_call(const char* name, Body&& body) noexcept {
  const Status status = locked_call(name, [&](Call& call) -> Status {
    if (call.machine.visible_count() == 0) return Status::kNoDevice;
    call.machine.initialize();
    return body(call);
  });
  if (status != Status::kSuccess) thread_context().last_error = status;
  return static_cast<std::int32_t>(status);
}

/// An entry point of the driver, which must have been initialised.
template <class Body>
std::int32_t driver_call(const char* name, Body&& body) noexcept {
  return static_cast<std::int32_t>(locked_call(name, [&](Call& call) -> Status {
    if (!call.machine.initialized()) return Status::kNotInitialized;
    return body(call);
  }));
}

}  // namespace fragscope::virtual_cuda
