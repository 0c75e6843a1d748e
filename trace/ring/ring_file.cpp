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
#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/file_mapping.hpp>
#include <sys/random.h>

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
  if (file < 0) return std::strerror(errno);
  const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  ::close(file);
  if (error == 0) return {};
  ::unlink(path.c_str());
  return std::string("no space: ") + std::strerror(error);
}

std::uint64_t start_of_process() {
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  // The name in brackets, the second field, may hold anything; the state behind it is the third.
  std::size_t at = line.rfind(')');
  if (at == std::string::npos) return 0;
  for (int field = 2; field < 22 && at != std::string::npos; ++field)
    at = line.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(line.c_str() + at, nullptr, 10);
}

void read_boot_id(std::array<char, 16>& id) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  std::erase(text, '-');
  for (std::size_t i = 0; i < id.size() && 2 * i + 1 < text.size(); ++i)
    id[i] = static_cast<char>(std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16));
}

}  // namespace

ProcessIdentity this_process() {
  ProcessIdentity identity;
  identity.pid = static_cast<std::uint32_t>(getpid());
  identity.start_ticks = start_of_process();
  read_boot_id(identity.boot_id);
  static_cast<void>(getrandom(identity.random_id.data(), identity.random_id.size(), 0));
  return identity;
}

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
  header->process = this_process();
  copy_text(options.torch_version, header->torch_version);
  copy_text(options.conf, header->conf);
  copy_text(options.command, header->command);
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
