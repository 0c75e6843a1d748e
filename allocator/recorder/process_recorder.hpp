// SPDX-License-Identifier: Apache-2.0
// The rings of one process, a device each. Whatever happens to them, the job goes on: a ring that
// cannot be had means an unrecorded device, said once on standard error and, where there is room
// for a page, in a ring's header.
#pragma once

#include "allocator/recorder/complaint.hpp"
#include "allocator/recorder/device_recorder.hpp"
#include "allocator/recorder/fork_guard.hpp"
#include "trace/process/ring_directory.hpp"
#include "trace/result.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace fragscope::recorder {

struct RecorderOptions {
  std::string directory = trace::ring_directory();
  /// As much history as there is room for: a power of two, halved until it fits.
  std::uint64_t record_capacity = std::uint64_t{1} << 18;
  std::uint64_t table_bytes = std::uint64_t{4} << 20;
  std::string conf;
  std::string command;
  std::string library_version;
  std::string torch_version;
};

struct RecordedDevice {
  std::int32_t ordinal = 0;
  std::array<char, 16> uuid = {};
  std::string name;
  std::uint64_t total_bytes = 0;
  trace::TraceSource source = trace::TraceSource::kFragscope;
  trace::TraceBeginning beginning = trace::TraceBeginning::kEmpty;
};

/// Not thread-safe; for the allocator's start.
class ProcessRecorder {
 public:
  /// Clears away old rings that nobody needs (`trace::reap_rings`). Must come before any other ring
  /// of this process is made. Does not throw.
  explicit ProcessRecorder(RecorderOptions options) noexcept;
  ProcessRecorder(const ProcessRecorder&) = delete;
  ProcessRecorder& operator=(const ProcessRecorder&) = delete;
  ~ProcessRecorder() = default;

  /// The device's recorder, made at the first call; null: the device is not recorded. Stays where
  /// it is as long as this lives. A forked child may have rings of its own, for devices that the
  /// parent had none of; the parent's are silent there. Does not throw.
  [[nodiscard]] DeviceRecorder* of(const RecordedDevice& device) noexcept;
  /// Why devices are not recorded; empty: they are. The last reason, if there were several.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// Where the device's ring lies; empty: nowhere.
  [[nodiscard]] std::string ring_path(std::int32_t ordinal) const;
  /// Of the rings that are made from now on.
  void set_conf(std::string conf) { options_.conf = std::move(conf); }

 private:
  struct Ring {
    std::string path;
    std::unique_ptr<ForkGuard> guard;  // of the process that made it
    std::unique_ptr<DeviceRecorder> recorder;
  };

  [[nodiscard]] Ring make(const RecordedDevice& device);
  [[nodiscard]] Result<trace::RingFile> make_file(const RecordedDevice& device, std::string& path);
  void leave_reason(const RecordedDevice& device);
  void complain(std::int32_t ordinal, std::string_view reason) noexcept;

  RecorderOptions options_;
  Complaint complaint_;
  std::map<std::int32_t, Ring> rings_;
  std::string reason_;
};

}  // namespace fragscope::recorder
