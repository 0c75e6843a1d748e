// SPDX-License-Identifier: Apache-2.0
// A file descriptor that closes itself, and how to open one.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace fragscope {

/// Owns the descriptor; the standard streams stay open. A negative number is no file.
class Descriptor {
 public:
  explicit Descriptor(int number)
      : number_(number) {}
  Descriptor(Descriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ > STDERR_FILENO) ::close(number_);
  }
  [[nodiscard]] int number() const { return number_; }
  /// It is no longer this one's to close.
  void forget() { number_ = -1; }

 private:
  int number_;
};

/// As open(2). Never takes the number of a standard stream that the process closed: what it prints
/// afterwards would go into the file.
[[nodiscard]] inline Descriptor open_file(const char* path, int flags, mode_t mode = 0) {
  const int number = ::open(path, flags | O_CLOEXEC, mode);
  if (number < 0 || number > STDERR_FILENO) return Descriptor(number);
  Descriptor higher(::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  ::close(number);
  return higher;
}

}  // namespace fragscope
