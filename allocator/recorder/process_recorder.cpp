// SPDX-License-Identifier: Apache-2.0
#include "allocator/recorder/process_recorder.hpp"

#include "trace/process/identity.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <sys/statvfs.h>

namespace fragscope::recorder {
namespace {

constexpr std::uint64_t kLeastRecords = std::uint64_t{1} << 12;

/// How much of the file system one ring may take: others live there too, such as NCCL and the
/// workers of a data loader, and in a container there may be 64 MB in all.
std::uint64_t room_for_a_ring(const std::string& directory) {
  struct statvfs status {};
  if (::statvfs(directory.c_str(), &status) != 0) return 0;
  return std::uint64_t{status.f_bavail} * status.f_frsize / 8;
}

}  // namespace

ProcessRecorder::ProcessRecorder(RecorderOptions options) noexcept
    : options_(std::move(options)) {
  try {
    trace::reap_rings(options_.directory);
  } catch (const std::exception&) {
    // Old rings stay; the next process will try again.
  }
}

DeviceRecorder* ProcessRecorder::of(const RecordedDevice& device) noexcept {
  const auto known = rings_.find(device.ordinal);
  if (known != rings_.end()) return known->second.recorder.get();
  try {
    return rings_.emplace(device.ordinal, make(device)).first->second.recorder.get();
  } catch (const std::exception& error) {
    complain(device.ordinal, error.what());
    return nullptr;
  }
}

std::string ProcessRecorder::ring_path(std::int32_t ordinal) const {
  const auto known = rings_.find(ordinal);
  return known == rings_.end() ? "" : known->second.path;
}

ProcessRecorder::Ring ProcessRecorder::make(const RecordedDevice& device) {
  Ring ring;
  if (!guard_.is_sound()) {
    complain(device.ordinal, "the system cannot tell forked children (MADV_WIPEONFORK)");
    return ring;
  }
  auto file = make_file(device, ring.path);
  if (!file) {
    ring.path.clear();
    complain(device.ordinal, file.error().describe());
    leave_reason(device);
    return ring;
  }
  try {
    ring.recorder = std::make_unique<DeviceRecorder>(*file, guard_);
    ring.recorder->settings(options_.conf);
  } catch (const std::exception& error) {
    file->end(trace::TraceState::kUnrecorded, error.what());
    complain(device.ordinal, error.what());
  }
  return ring;
}

Result<trace::RingFile> ProcessRecorder::make_file(const RecordedDevice& device,
                                                   std::string& path) {
  trace::RingOptions ring;
  ring.process = trace::this_process();
  ring.device = device.ordinal;
  ring.device_uuid = device.uuid;
  ring.device_name = device.name;
  ring.device_total_bytes = device.total_bytes;
  ring.conf = options_.conf;
  ring.command = options_.command;
  ring.library_version = options_.library_version;
  ring.torch_version = options_.torch_version;
  ring.record_capacity = options_.record_capacity;
  ring.table_bytes = options_.table_bytes;

  const std::uint64_t room = room_for_a_ring(options_.directory);
  const auto shrink = [&ring] {
    ring.record_capacity /= 2;
    ring.table_bytes /= 2;
  };
  while (ring.record_capacity > kLeastRecords &&
         ring.record_capacity * trace::kRecordBytes + ring.table_bytes > room) {
    shrink();
  }
  for (;; shrink()) {
    path = options_.directory + "/" + trace::ring_name(ring.process, device.ordinal);
    auto file = trace::RingFile::create(path, ring);
    if (file || ring.record_capacity <= kLeastRecords) return file;
    // Another process may have had the same name: with the next size comes another one.
    ring.process = trace::this_process();
  }
}

/// A ring without records, of two pages, for whoever asks later why there is nothing.
void ProcessRecorder::leave_reason(const RecordedDevice& device) {
  trace::RingOptions ring;
  ring.process = trace::this_process();
  ring.device = device.ordinal;
  ring.record_capacity = 1;
  ring.table_bytes = 0;
  ring.command = options_.command;
  const std::string path =
      options_.directory + "/" + trace::ring_name(ring.process, device.ordinal);
  auto file = trace::RingFile::create(path, ring);
  if (file) file->end(trace::TraceState::kUnrecorded, reason_);
}

void ProcessRecorder::complain(std::int32_t ordinal, std::string_view reason) noexcept {
  if (!std::exchange(has_complained_, true)) say_unrecorded(ordinal, reason);
  try {
    reason_ = reason;
  } catch (const std::exception&) {
    // Without memory for it the reason is only where it was printed.
  }
}

}  // namespace fragscope::recorder
