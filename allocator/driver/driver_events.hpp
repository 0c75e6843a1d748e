// SPDX-License-Identifier: Apache-2.0
// When work on a stream is done, by the CUDA driver's events, behind the policy's seam. Events are
// used again. Not thread-safe; called under the device's lock.
#pragma once

#include "allocator/driver/driver_api.hpp"
#include "allocator/driver/driver_memory.hpp"
#include "allocator/policy/device/device_memory.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace fragscope::driver {

class DriverEvents final : public policy::StreamEvents {
 public:
  /// Both outlive this.
  DriverEvents(const Api& api, const Device& device);

  [[nodiscard]] policy::EventId record(policy::StreamId stream) override;
  [[nodiscard]] bool is_done(policy::EventId event) override;
  void wait(policy::EventId event) override;
  [[nodiscard]] bool is_capturing() const override;
  // A graph that the driver does not let us look into has no ends, and nothing precedes in it: a
  // block that was used in such a capture waits until it is over.
  [[nodiscard]] std::optional<std::vector<policy::CaptureNode>> capture_ends(
      policy::StreamId stream) const override;
  [[nodiscard]] bool precede(const std::vector<policy::CaptureNode>& nodes,
                             policy::StreamId stream) const override;

  /// The calling thread's stream from now on, which `is_capturing` is about.
  void use(policy::StreamId stream) { current_ = stream; }

 private:
  const Api& api_;
  const Device& device_;
  policy::StreamId current_ = 0;
  std::vector<EventHandle> spare_;
};

}  // namespace fragscope::driver
