// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/output.hpp"

#include "analyzer/report/frame_text.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace fragscope::cli {

int complain(const Error& error) {
  fmt::print(stderr, "fragscope: {}\n", report::printable(error.describe()));
  return kFailed;
}

int printed(int code) {
  if (std::fflush(stdout) == 0) return code;
  if (errno == EPIPE) return code;  // Whoever reads has seen enough, as `head` does.
  return complain(system_error("standard output", "cannot be written"));
}

int finish(const Result<int>& done, const std::string& file) {
  if (done) return printed(*done);
  Error error = done.error();
  if (error.code != ErrorCode::kUsage && error.source.empty()) error.source = file;
  return complain(error);
}

Error system_error(const std::string& path, const char* what) {
  Error error;
  error.code = ErrorCode::kUnreadable;
  error.source = path;
  error.message = fmt::format("{}: {}", what, std::generic_category().message(errno));
  return error;
}

Result<void> write_all(int file, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return tl::unexpected(system_error(path, "cannot be written"));
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

bool wants_colour(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  // Nothing here starts a thread that could change the environment.
  const char* no_color = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* terminal = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe)
  return ::isatty(STDOUT_FILENO) == 1 && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

}  // namespace fragscope::cli
