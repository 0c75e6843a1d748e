// SPDX-License-Identifier: Apache-2.0
#include "trace/process/ring_directory.hpp"

#include "trace/process/descriptor.hpp"
#include "trace/process/identity.hpp"
#include "trace/ring/clock.hpp"
#include "trace/ring/ring_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <sys/stat.h>

namespace fragscope::trace {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "fragscope-";
constexpr const char* kSuffix = ".ring";

bool is_ring_name(const std::string& name) {
  return name.starts_with(kPrefix) && name.ends_with(kSuffix);
}

bool is_locked(int file) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

WriterState state_of(int file, const Header& header) {
  if (header.state == TraceState::kEnded) return WriterState::kEnded;
  // The lock reaches across containers, the identity survives where no lock could be had.
  const bool is_alive = is_locked(file) || is_running(header.process);
  return is_alive ? WriterState::kAlive : WriterState::kDead;
}

Result<Header> read_header_of(int file, std::uint64_t bytes) {
  alignas(8) std::array<std::byte, kHeaderBytes> page{};
  const ssize_t got = ::pread(file, page.data(), page.size(), 0);
  if (got < 0) return failure(ErrorCode::kUnreadable, std::generic_category().message(errno));
  return read_header(std::span(page).first(static_cast<std::size_t>(got)), bytes);
}

/// When the last record was written, as far as that can be told, in seconds since the Unix epoch:
/// what is written through a mapping does not change the time of a file in memory.
std::int64_t last_record_s(int file, const Header& header) {
  if (header.form != TraceForm::kRing || header.written == 0) return 0;
  Record record;
  const std::uint64_t slot = (header.written - 1) % header.record_capacity;
  const auto offset = static_cast<off_t>(header.record_offset + slot * header.record_bytes);
  if (::pread(file, &record, sizeof record, offset) != static_cast<ssize_t>(sizeof record))
    return 0;
  const std::uint64_t time_ns =
      std::min(unix_ns_at(with_second_moment(header), record.ticks), clock_ns(CLOCK_REALTIME));
  return static_cast<std::int64_t>(time_ns / 1'000'000'000U);
}

RingEntry entry_of(const std::string& path) {
  RingEntry entry;
  entry.path = path;
  struct stat status {};
  // Without following links, and without touching whatever else may lie there: opening a pipe is
  // seen at its other end.
  if (::lstat(path.c_str(), &status) != 0) {
    entry.problem = std::generic_category().message(errno);
    return entry;
  }
  entry.bytes = static_cast<std::uint64_t>(status.st_size);
  entry.owner = status.st_uid;
  entry.changed_s = status.st_mtime;
  if (!S_ISREG(status.st_mode)) {
    entry.problem = "expected a file, found something else";
    return entry;
  }
  const Descriptor file = open_file(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (file.number() < 0) {
    entry.problem = std::generic_category().message(errno);
    return entry;
  }
  auto header = read_header_of(file.number(), entry.bytes);
  if (!header) {
    entry.problem = header.error().message;
    return entry;
  }
  entry.header = *header;
  entry.writer = state_of(file.number(), *header);
  entry.changed_s = std::max(entry.changed_s, last_record_s(file.number(), *header));
  return entry;
}

/// What cannot be listed has none: it is another user's, or gone meanwhile.
void add_rings_of_job(const fs::path& folder, std::vector<RingEntry>& rings) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) return;
  fs::directory_iterator files(folder, error);
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    const fs::path& path = files->path();
    if (is_ring_name(path.filename().string())) rings.push_back(entry_of(path.string()));
  }
}

}  // namespace

std::string ring_directory() {
  // Nothing of ours changes the environment.
  const char* directory = std::getenv("FRAGSCOPE_RING_DIR");  // NOLINT(concurrency-mt-unsafe)
  return directory != nullptr && *directory != '\0' ? directory : "/dev/shm";
}

std::string ring_name(const ProcessIdentity& process, std::int32_t device) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string random;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto byte = static_cast<unsigned char>(process.random_id[i]);
    random += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  const std::string shown_rank =
      process.rank == 0 ? "" : "-rank" + std::to_string(process.rank - 1);
  return kPrefix + std::to_string(process.pid) + "-" + std::to_string(device) + shown_rank + "-" +
         random + kSuffix;
}

std::string what_explains(const std::string& ring_path) {
  const std::string folder = fs::path(ring_path).parent_path().filename().string();
  if (folder.starts_with(kJobFolderPrefix)) return "fragscope run says why once the job has ended.";
  return "fragscope analyze " + ring_path + " says why.";
}

WriterState writer_state(const std::string& path, const Header& header) {
  const Descriptor file = open_file(path.c_str(), O_RDONLY | O_NONBLOCK);
  return state_of(file.number(), header);
}

Result<std::vector<RingEntry>> list_rings(const std::string& directory) {
  std::error_code error;
  fs::directory_iterator files(directory, error);
  if (error) {
    auto failed = failure(ErrorCode::kUnreadable, "cannot be listed: " + error.message());
    failed.value().source = directory;
    return failed;
  }
  std::vector<RingEntry> rings;
  for (; files != fs::directory_iterator(); files.increment(error)) {
    if (error) break;
    const fs::path& path = files->path();
    const std::string name = path.filename().string();
    if (is_ring_name(name)) {
      rings.push_back(entry_of(path.string()));
    } else if (name.starts_with(kJobFolderPrefix)) {
      add_rings_of_job(path, rings);
    }
  }
  std::ranges::sort(rings, {}, &RingEntry::path);
  return rings;
}

std::size_t reap_rings(const std::string& directory, const KeepLimits& limits) {
  auto rings = list_rings(directory);
  if (!rings) return 0;
  std::erase_if(*rings, [](const RingEntry& ring) {
    return !ring.header || ring.owner != ::geteuid() || ring.writer == WriterState::kAlive;
  });
  // The newest evidence first; what is none comes last and always goes.
  std::ranges::sort(*rings, [](const RingEntry& a, const RingEntry& b) {
    return std::pair(a.is_evidence(), a.changed_s) > std::pair(b.is_evidence(), b.changed_s);
  });
  std::size_t removed = 0;
  std::uint64_t kept_bytes = 0;
  for (std::size_t i = 0; i < rings->size(); ++i) {
    const RingEntry& ring = (*rings)[i];
    kept_bytes += ring.bytes;
    const bool fits = i < limits.rings && kept_bytes <= limits.bytes;
    if (ring.is_evidence() && fits) continue;
    if (::unlink(ring.path.c_str()) != 0) continue;
    ++removed;
    const fs::path folder = fs::path(ring.path).parent_path();
    // Only an empty one goes.
    if (folder.filename().string().starts_with(kJobFolderPrefix)) ::rmdir(folder.c_str());
  }
  return removed;
}

}  // namespace fragscope::trace
