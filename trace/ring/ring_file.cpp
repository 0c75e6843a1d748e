// SPDX-License-Identifier: Apache-2.0
#include "trace/ring/ring_file.hpp"

#include "trace/ring/clock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/file_mapping.hpp>

namespace fragscope::trace {
namespace {

namespace ipc = boost::interprocess;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;

tl::unexpected<Error> refuse(const std::string& path, const std::string& what) {
  auto error = failure(ErrorCode::kUnreadable, what);
  error.value().source = path;
  return error;
}

Result<ipc::mapped_region> map(const std::string& path, ipc::mode_t mode) {
  try {
    const ipc::file_mapping file(path.c_str(), mode);
    return ipc::mapped_region(file, mode);
  } catch (const ipc::interprocess_exception& error) {
    return refuse(path, std::string("cannot be mapped: ") + error.what());
  }
}

template <std::size_t kSize>
void copy_text(std::string_view text, std::array<char, kSize>& field) {
  const std::size_t size = std::min(text.size(), kSize - 1);
  std::copy_n(text.begin(), size, field.begin());
  field[size] = '\0';
}

/// A new file of that size, with its space; empty, or what went wrong.
std::string make_file(const std::string& path, std::uint64_t bytes) {
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return std::generic_category().message(errno);
  const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  ::close(file);
  if (error == 0) return {};
  ::unlink(path.c_str());
  return "no space for " + std::to_string(bytes) +
         " bytes: " + std::generic_category().message(error);
}

/// A lock that the kernel takes away when the process is gone, however that comes about, and that a
/// forked child does not have.
void hold_lock(int file) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  // Without it a reader still has the process's identity.
  static_cast<void>(::fcntl(file, F_SETLK, &lock));
}

}  // namespace

Result<RingFile> RingFile::create(const std::string& path, const RingOptions& options) {
  if (!std::has_single_bit(options.record_capacity) ||
      options.record_capacity > kMostBytes / kRecordBytes || options.table_bytes > kMostBytes) {
    return refuse(path, "a ring's capacity is a power of two, and at most a tebibyte");
  }
  const std::uint64_t records = options.record_capacity * kRecordBytes;
  const std::uint64_t table_offset = kHeaderBytes + records;
  const std::uint64_t bytes = (table_offset + options.table_bytes + kPage - 1) / kPage * kPage;
  if (const std::string error = make_file(path, bytes); !error.empty()) return refuse(path, error);
  auto region = map(path, ipc::read_write);
  if (!region) return tl::unexpected(std::move(region.error()));

  RingFile file(std::move(*region));
  auto* header = new (file.memory()) Header;
  header->header_bytes = kHeaderBytes;
  header->record_offset = kHeaderBytes;
  header->record_capacity = options.record_capacity;
  header->table_offset = table_offset;
  header->table_bytes = options.table_bytes;
  header->clock = best_clock();
  header->device = options.device;
  header->first_anchor = header->last_anchor = anchor_now(header->clock);
  header->process = options.process;
  header->device_uuid = options.device_uuid;
  header->device_total_bytes = options.device_total_bytes;
  copy_text(options.device_name, header->device_name);
  copy_text(options.torch_version, header->torch_version);
  copy_text(options.conf, header->conf);
  copy_text(options.command, header->command);
  copy_text(options.library_version, header->library_version);
  // Mapping opened and closed the file, which would have given the lock up again.
  file.lock_ = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  hold_lock(file.lock_.number());
  file.end(TraceState::kRecording);
  return file;
}

Result<RingFile> RingFile::open(const std::string& path) {
  auto region = map(path, ipc::read_only);
  if (!region) return tl::unexpected(std::move(region.error()));
  return RingFile(std::move(*region));
}

void RingFile::end(TraceState state, std::string_view reason) {
  copy_text(reason, header().reason);
  std::atomic_ref(header().state).store(state, std::memory_order_release);
}

}  // namespace fragscope::trace
