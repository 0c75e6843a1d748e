// SPDX-License-Identifier: Apache-2.0
#include "allocator/driver/driver_events.hpp"

#include <bit>

namespace fragscope::driver {
namespace {

constexpr unsigned kDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING

StreamHandle handle_of(policy::StreamId stream) {
  return std::bit_cast<StreamHandle>(stream);
}
EventHandle event_of(policy::EventId event) {
  return std::bit_cast<EventHandle>(event);
}

}  // namespace

DriverEvents::DriverEvents(const Api& api, const Device& device)
    : api_(api)
    , device_(device) {}

// An event that cannot be had is 0, and done at once only after all work of the device is.
policy::EventId DriverEvents::record(policy::StreamId stream) {
  const CurrentContext current(api_, device_.context);
  EventHandle event = nullptr;
  if (!spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
  } else if (api_.event_create(&event, kDisableTiming) != kSuccess) {
    event = nullptr;
  }
  if (event != nullptr && api_.event_record(event, handle_of(stream)) == kSuccess) {
    return std::bit_cast<policy::EventId>(event);
  }
  static_cast<void>(api_.ctx_synchronize());
  if (event != nullptr) spare_.push_back(event);
  return 0;
}

bool DriverEvents::is_done(policy::EventId event) {
  if (event == 0) return true;
  const CurrentContext current(api_, device_.context);
  // Any other answer means that the context is broken: nothing will ever run on it again.
  if (api_.event_query(event_of(event)) == kNotReady) return false;
  spare_.push_back(event_of(event));
  return true;
}

void DriverEvents::wait(policy::EventId event) {
  if (event == 0) return;
  const CurrentContext current(api_, device_.context);
  static_cast<void>(api_.event_synchronize(event_of(event)));
  spare_.push_back(event_of(event));
}

bool DriverEvents::is_capturing() const {
  std::int32_t status = 0;
  const CurrentContext current(api_, device_.context);
  return api_.stream_is_capturing(handle_of(current_), &status) == kSuccess && status != 0;
}

}  // namespace fragscope::driver
