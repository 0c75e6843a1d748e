// SPDX-License-Identifier: Apache-2.0
// One device's allocator at work: the policy over the driver's memory, recorded, behind one lock.
// What every way into PyTorch shares. Thread-safe.
#pragma once

#include "allocator/driver/driver_api.hpp"
#include "allocator/driver/driver_events.hpp"
#include "allocator/driver/driver_memory.hpp"
#include "allocator/live/device_witness.hpp"
#include "allocator/policy/caching_policy.hpp"
#include "allocator/recorder/process_recorder.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace fragscope::live {

/// A request that was refused: what happened, and the message with PyTorch's words.
struct Refusal {
  policy::AllocationFailure failure;
  std::string message;
};

class LiveDevice {
 public:
  /// `api` and `recorders` outlive this. Unrecorded if there is no ring to be had.
  LiveDevice(const driver::Api& api,
             driver::Device device,
             const policy::PolicyOptions& options,
             recorder::ProcessRecorder& recorders);
  LiveDevice(const LiveDevice&) = delete;
  LiveDevice& operator=(const LiveDevice&) = delete;

  /// Memory of at least `bytes` (not 0) for work on `stream`; 0 and the reason if there is none.
  [[nodiscard]] policy::Address allocate(std::uint64_t bytes,
                                         policy::StreamId stream,
                                         std::optional<Refusal>& refusal);
  /// False, with nothing done, if it was not handed out here.
  [[nodiscard]] bool give_back(policy::Address address);
  /// False if it was not handed out here.
  [[nodiscard]] bool record_stream(policy::Address address, policy::StreamId stream);
  void empty_cache();
  void set_memory_fraction(double fraction);
  /// The segment that the address lies in, and its size; none if it was not handed out here.
  [[nodiscard]] std::optional<std::pair<policy::Address, std::uint64_t>> base_of(
      policy::Address address);
  void mark(std::string_view text, recorder::MarkKind kind);
  /// The process ends; what comes now is not recorded any more.
  void end_recording();

  /// Empty if the device is not recorded.
  [[nodiscard]] const std::string& ring_path() const { return ring_path_; }

  /// Held while a process forks, so that a child finds the books whole.
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

 private:
  [[nodiscard]] Refusal refusal() const;

  driver::Device device_;
  DeviceWitness witness_;
  driver::DriverMemory memory_;
  driver::DriverEvents events_;
  recorder::DeviceRecorder* recorder_;
  std::string ring_path_;
  policy::CachingPolicy policy_;
  std::mutex mutex_;
};

}  // namespace fragscope::live
