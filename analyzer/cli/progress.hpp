// SPDX-License-Identifier: Apache-2.0
// A progress bar on standard error for work that takes over a second, only where that is a
// terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace fragscope::cli {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Cheap; call as often as you like.
  void show(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  bool is_terminal_;
  bool shown_ = false;
  Clock::time_point next_;
};

}  // namespace fragscope::cli
