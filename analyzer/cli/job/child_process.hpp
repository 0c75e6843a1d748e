// SPDX-License-Identifier: Apache-2.0
// A command as a child that ends as if it had been started without us: signals reach it, and how it
// ended becomes how we end. For `run`.
#pragma once

#include "trace/result.hpp"

#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace fragscope::cli {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// What shells say where a command is not found, or cannot be run.
inline constexpr int kNotFound = 127;
inline constexpr int kNotRunnable = 126;

class ChildProcess {
 public:
  /// Looks the command up in PATH. `added` stands above this process's environment. From now on
  /// this process outlives signals that ask it to end, until `end_like_it`: those that a terminal
  /// sends to both are the child's affair, those for this process alone are handed on. At most one
  /// child at a time. The error's code is kUsage where the command is not
  /// there.
  [[nodiscard]] static Result<ChildProcess> start(const std::vector<std::string>& command,
                                                  const Environment& added);

  /// Whether it has ended; does not wait.
  [[nodiscard]] bool has_ended();
  /// Of one that has ended.
  [[nodiscard]] bool has_failed() const { return status_ != 0; }
  /// "exit code 1", "signal 9 (Killed)".
  [[nodiscard]] std::string end_text() const;
  /// Ends this process in the same way: gives the exit code, or does not come back.
  [[nodiscard]] int end_like_it() const;

 private:
  explicit ChildProcess(pid_t pid)
      : pid_(pid) {}

  pid_t pid_;
  int status_ = 0;  // as waitpid gives it
  bool has_ended_ = false;
};

}  // namespace fragscope::cli
