// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/progress.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace fragscope::cli {

Progress::Progress(std::string what)
    : what_(std::move(what))
    , is_terminal_(::isatty(STDERR_FILENO) == 1)
    , next_(Clock::now() + std::chrono::seconds(1)) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::show(std::uint64_t done, std::uint64_t total) {
  if (!is_terminal_ || total == 0) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  shown_ = true;
  constexpr std::uint64_t kWidth = 30;
  const std::uint64_t filled = done * kWidth / total;
  fmt::print(stderr,
             "\r{} [{:#<{}}{:.<{}}] {} %",
             what_,
             "",
             filled,
             "",
             kWidth - filled,
             done * 100 / total);
  std::fflush(stderr);
}

}  // namespace fragscope::cli
