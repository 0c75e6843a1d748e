// SPDX-License-Identifier: Apache-2.0
#include "trace/ring/ring_file.hpp"

#include "trace/process/held_signals.hpp"
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

#include <boost/interprocess/detail/os_file_functions.hpp>
#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <sys/stat.h>

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

/// An open file, as Boost.Interprocess wants to see it.
class OpenFile {
 public:
  OpenFile(int number, ipc::mode_t mode)
      : number_(number)
      , mode_(mode) {}
  [[nodiscard]] ipc::mapping_handle_t get_mapping_handle() const {
    return ipc::ipcdetail::mapping_handle_from_file_handle(number_);
  }
  [[nodiscard]] ipc::mode_t get_mode() const { return mode_; }

 private:
  int number_;
  ipc::mode_t mode_;
};

Result<ipc::mapped_region> map(const std::string& path, int file, ipc::mode_t mode) {
  try {
    return ipc::mapped_region(OpenFile(file, mode), mode);
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

/// A file that gets its name only when it is finished, where the file system can do that. If it
/// is never finished nothing is left of it.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path)
      , file_(open_file(directory_of(path).c_str(), O_TMPFILE | O_RDWR, 0600)) {
    if (number() >= 0) return;
    file_ = open_file(path.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    is_named_ = number() >= 0;
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (is_named_ && !is_finished_) ::unlink(path_.c_str());
  }

  [[nodiscard]] int number() const { return file_.number(); }

  /// Gives it its name; false and errno if that cannot be, as where there is such a file.
  [[nodiscard]] bool finish() {
    if (!is_named_) {
      const std::string self = "/proc/self/fd/" + std::to_string(number());
      is_named_ = ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0;
    }
    is_finished_ = is_named_;
    return is_finished_;
  }
  [[nodiscard]] Descriptor take() { return std::move(file_); }

 private:
  [[nodiscard]] static std::string directory_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return path.substr(0, std::max<std::size_t>(slash, 1));
  }

  const std::string& path_;
  Descriptor file_;
  bool is_named_ = false;
  bool is_finished_ = false;
};

/// Takes the space for it now; empty, or what went wrong.
std::string take_space(int file, std::uint64_t bytes) {
  if (file < 0) return std::generic_category().message(errno);
  const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  if (error == 0) return {};
  return "no space for " + std::to_string(bytes) +
         " bytes: " + std::generic_category().message(error);
}

std::uint64_t inode_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 ? status.st_ino : 0;
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

std::uint64_t ring_bytes(const RingOptions& options) {
  const std::uint64_t records = options.record_capacity * kRecordBytes;
  return (kHeaderBytes + records + options.table_bytes + kPage - 1) / kPage * kPage;
}

RingFile::~RingFile() {
  // The job may have closed whatever it found open, and the number be another file by now.
  if (lock_.number() >= 0 && inode_of(lock_.number()) != inode_) lock_.forget();
}

Result<RingFile> RingFile::create(const std::string& path, const RingOptions& options) {
  if (!std::has_single_bit(options.record_capacity) ||
      options.record_capacity > kMostBytes / kRecordBytes || options.table_bytes > kMostBytes) {
    return refuse(path, "a ring's capacity is a power of two, and at most a tebibyte");
  }
  const HeldSignals held;
  NewFile made(path);
  if (const std::string error = take_space(made.number(), ring_bytes(options)); !error.empty()) {
    return refuse(path, error);
  }
  auto region = map(path, made.number(), ipc::read_write);
  if (!region) return tl::unexpected(std::move(region.error()));

  RingFile file(std::move(*region));
  auto* header = new (file.memory()) Header;
  header->header_bytes = kHeaderBytes;
  header->record_offset = kHeaderBytes;
  header->record_capacity = options.record_capacity;
  header->table_offset = kHeaderBytes + options.record_capacity * kRecordBytes;
  header->table_bytes = options.table_bytes;
  header->clock = best_clock();
  header->device = options.device;
  header->source = options.source;
  header->beginning = options.beginning;
  header->first_anchor = header->last_anchor = anchor_now(header->clock);
  header->process = options.process;
  header->device_uuid = options.device_uuid;
  header->device_total_bytes = options.device_total_bytes;
  copy_text(options.device_name, header->device_name);
  copy_text(options.torch_version, header->torch_version);
  copy_text(options.conf, header->conf);
  copy_text(options.command, header->command);
  copy_text(options.library_version, header->library_version);
  // In this order: whoever sees that it is recorded into also sees the lock.
  hold_lock(made.number());
  file.end(TraceState::kRecording);
  if (!made.finish()) {
    return refuse(path, "cannot be named: " + std::generic_category().message(errno));
  }
  file.inode_ = inode_of(made.number());
  file.lock_ = made.take();
  return file;
}

Result<RingFile> RingFile::open(const std::string& path) {
  const Descriptor file = open_file(path.c_str(), O_RDONLY);
  if (file.number() < 0) {
    return refuse(path, "cannot be opened: " + std::generic_category().message(errno));
  }
  auto region = map(path, file.number(), ipc::read_only);
  if (!region) return tl::unexpected(std::move(region.error()));
  return RingFile(std::move(*region));
}

void RingFile::end(TraceState state, std::string_view reason) {
  copy_text(reason, header().reason);
  std::atomic_ref(header().state).store(state, std::memory_order_release);
}

}  // namespace fragscope::trace
