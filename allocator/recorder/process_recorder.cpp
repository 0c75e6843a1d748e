// SPDX-License-Identifier: Apache-2.0
#include "allocator/recorder/process_recorder.hpp"

#include "trace/process/identity.hpp"

#include <unistd.h>

#include <exception>
#include <optional>
#include <utility>

#include <sys/statvfs.h>

namespace fragscope::recorder {
namespace {

constexpr std::uint64_t kLeastRecords = std::uint64_t{1} << 12;

/// How often another name is tried where one is taken.
constexpr int kMostNames = 8;

/// How much of the file system one ring may take: others live there too, such as NCCL and the
/// workers of a data loader, and in a container there may be 64 MB in all. None: not known, as
/// where the directory is missing, or without a bound, which a file system in memory may be.
std::optional<std::uint64_t> room_for_a_ring(const std::string& directory) {
  struct statvfs status {};
  if (::statvfs(directory.c_str(), &status) != 0 || status.f_blocks == 0) return std::nullopt;
  return std::uint64_t{status.f_bavail} * status.f_frsize / 8;
}

/// A new ring under a name that nobody has; then `path` is where.
Result<trace::RingFile> create_named(const std::string& directory,
                                     trace::RingOptions& ring,
                                     std::string& path) {
  for (int names = 1;; ++names) {
    // Only now: a worker may be told its rank long after it has loaded us.
    ring.process = trace::this_process();
    path = directory + "/" + trace::ring_name(ring.process, ring.device);
    auto file = trace::RingFile::create(path, ring);
    if (file || names == kMostNames || ::access(path.c_str(), F_OK) != 0) return file;
  }
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
  ring.guard = std::make_unique<ForkGuard>();
  if (!ring.guard->is_sound()) {
    complain(device.ordinal, "the system cannot tell forked children (MADV_WIPEONFORK)");
    return ring;
  }
  auto file = make_file(device, ring.path);
  if (!file) {
    ring.path.clear();
    // The path last: it may be longer than what is kept of a reason.
    complain(device.ordinal, file.error().message + ": " + file.error().source);
    leave_reason(device);
    return ring;
  }
  try {
    ring.recorder = std::make_unique<DeviceRecorder>(*file, *ring.guard, complaint_);
    ring.recorder->settings(options_.conf);
    // What was said when there was no ring yet.
    ring.recorder->take_marks();
  } catch (const std::exception& error) {
    file->end(trace::TraceState::kUnrecorded, error.what());
    complain(device.ordinal, error.what());
  }
  return ring;
}

Result<trace::RingFile> ProcessRecorder::make_file(const RecordedDevice& device,
                                                   std::string& path) {
  trace::RingOptions ring;
  ring.device = device.ordinal;
  ring.device_uuid = device.uuid;
  ring.device_name = device.name;
  ring.device_total_bytes = device.total_bytes;
  ring.source = device.source;
  ring.beginning = device.beginning;
  ring.conf = options_.conf;
  ring.command = options_.command;
  ring.library_version = options_.library_version;
  ring.torch_version = options_.torch_version;
  ring.record_capacity = options_.record_capacity;
  ring.table_bytes = options_.table_bytes;

  const std::optional<std::uint64_t> room = room_for_a_ring(options_.directory);
  const auto is_least = [&ring] { return ring.record_capacity <= kLeastRecords; };
  const auto shrink = [&ring] {
    ring.record_capacity /= 2;
    ring.table_bytes /= 2;
  };
  for (; room && trace::ring_bytes(ring) > *room; shrink()) {
    if (!is_least()) continue;
    auto refused = failure(ErrorCode::kTooLarge,
                           "a ring takes an eighth of the free space at most, that is " +
                               std::to_string(*room) + " bytes, and " +
                               std::to_string(trace::ring_bytes(ring)) + " at least");
    refused.value().source = options_.directory;
    return refused;
  }
  for (;; shrink()) {
    auto file = create_named(options_.directory, ring, path);
    if (file || is_least()) return file;
  }
}

/// A ring without records, of two pages, for whoever asks later why there is nothing.
void ProcessRecorder::leave_reason(const RecordedDevice& device) {
  trace::RingOptions ring;
  ring.device = device.ordinal;
  ring.record_capacity = 1;
  ring.table_bytes = 0;
  ring.command = options_.command;
  std::string path;
  auto file = create_named(options_.directory, ring, path);
  if (file) file->end(trace::TraceState::kUnrecorded, reason_);
}

void ProcessRecorder::complain(std::int32_t ordinal, std::string_view reason) noexcept {
  complaint_.say(ordinal, reason);
  try {
    reason_ = reason;
  } catch (const std::exception&) {
    // Without memory for it the reason is only where it was printed.
  }
}

}  // namespace fragscope::recorder
