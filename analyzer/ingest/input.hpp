// SPDX-License-Identifier: Apache-2.0
// What every reader of files shares: the system's reason as an error, and the form of a progress
// report.
#pragma once

#include "trace/process/descriptor.hpp"
#include "trace/result.hpp"

#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>
#include <system_error>

namespace fragscope::ingest {

/// Where reading stands, for a progress display.
using ProgressFn = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

/// "cannot be opened: No such file or directory", from errno.
[[nodiscard]] inline tl::unexpected<Error> system_failure(const char* what) {
  return failure(ErrorCode::kUnreadable,
                 std::string(what) + ": " + std::generic_category().message(errno));
}

}  // namespace fragscope::ingest
