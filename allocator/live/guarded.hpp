// SPDX-License-Identifier: Apache-2.0
// How every function of a live device runs: under its lock, and nothing leaves it. Without memory
// for its own books the allocator keeps what it has. For the device's own files alone.
#pragma once

#include "allocator/live/live_device.hpp"

#include <exception>
#include <mutex>

namespace fragscope::live {

/// What `body` gives, or `otherwise` if it could not be done.
template <class Body, class Value>
Value LiveDevice::guarded(Value otherwise, Body body) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    return body();
  } catch (const std::exception&) {
    return otherwise;
  }
}

template <class Body>
void LiveDevice::guarded(Body body) noexcept {
  static_cast<void>(guarded(false, [&] {
    body();
    return true;
  }));
}

}  // namespace fragscope::live
