// SPDX-License-Identifier: Apache-2.0
// What every reader of files shares: a descriptor that closes itself, the system's reason as an
// error, and the form of a progress report.
#pragma once

#include "trace/result.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>
#include <system_error>

namespace fragscope::ingest {

/// Where reading stands, for a progress display.
using ProgressFn = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

/// Closes the file it was given; the standard streams stay open. A negative number is no file.
class Descriptor {
 public:
  explicit Descriptor(int number)
      : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ > STDERR_FILENO) ::close(number_);
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

/// "cannot be opened: No such file or directory", from errno.
[[nodiscard]] inline tl::unexpected<Error> system_failure(const char* what) {
  return failure(ErrorCode::kUnreadable,
                 std::string(what) + ": " + std::generic_category().message(errno));
}

}  // namespace fragscope::ingest
