// SPDX-License-Identifier: Apache-2.0
// What NVML and the driver say about one device, for its trace and for the message of a refused
// request: facts that stay, and who uses the device now. Asking NVML takes milliseconds, so the
// device's lock is not held for it, but for a request that has failed for good (see
// devices/nvml.hpp). FRAGSCOPE_NVML=0 leaves NVML alone. Thread-safe.
#pragma once

#include "allocator/driver/driver_api.hpp"
#include "allocator/live/evidence/process_list.hpp"
#include "allocator/policy/inspect/out_of_memory_message.hpp"
#include "allocator/recorder/device_recorder.hpp"
#include "trace/result.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::live {

/// Who uses the device, in NVML's order.
struct DeviceSight {
  std::vector<policy::ProcessMemory> processes;
  std::vector<std::string> names;  ///< Of the processes, one each; empty: not known.
  std::string refusal;             ///< Why nobody can tell; empty: they are known.

  /// Writes it down. The recorder's device is locked by the caller.
  void record(recorder::DeviceRecorder& recorder, policy::Capacity capacity) const;
};

class DeviceWitness {
 public:
  /// `api` outlives this. Starts NVML, if nobody has yet.
  DeviceWitness(const driver::Api& api, driver::DeviceHandle ordinal);

  /// Writes down what stays so. The recorder's device is locked by the caller, or not yet in use.
  void record_facts(recorder::DeviceRecorder& recorder) const;

  [[nodiscard]] DeviceSight look() const;
  /// For what may come often, such as marks: nothing, unless all looking so far took a twentieth of
  /// the time at most.
  [[nodiscard]] std::optional<DeviceSight> look_if_due();

 private:
  const driver::Api& api_;
  Result<NvmlDevice> device_;
  std::atomic<std::int64_t> next_look_ns_ = 0;  // of the steady clock
};

}  // namespace fragscope::live
