// SPDX-License-Identifier: Apache-2.0
#include "trace/process/ring_directory.hpp"

#include "trace/process/descriptor.hpp"
#include "trace/process/identity.hpp"
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

RingEntry entry_of(const std::string& path) {
  RingEntry entry;
  entry.path = path;
  struct stat status {};
  // Without following links, and without waiting for whatever else may lie there.
  if (::lstat(path.c_str(), &status) == 0) {
    entry.bytes = static_cast<std::uint64_t>(status.st_size);
    entry.owner = status.st_uid;
    entry.changed_s = status.st_mtime;
  }
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.number() < 0 || !S_ISREG(status.st_mode)) {
    entry.problem = S_ISREG(status.st_mode) ? std::generic_category().message(errno)
                                            : "expected a file, found something else";
    return entry;
  }
  auto header = read_header_of(file.number(), entry.bytes);
  if (!header) {
    entry.problem = header.error().message;
    return entry;
  }
  entry.header = *header;
  entry.writer = state_of(file.number(), *header);
  return entry;
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
  return kPrefix + std::to_string(process.pid) + "-" + std::to_string(device) + "-" + random +
         kSuffix;
}

WriterState writer_state(const std::string& path, const Header& header) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
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
    if (is_ring_name(path.filename().string())) rings.push_back(entry_of(path.string()));
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
    if (::unlink(ring.path.c_str()) == 0) ++removed;
  }
  return removed;
}

}  // namespace fragscope::trace
