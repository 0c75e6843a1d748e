// SPDX-License-Identifier: Apache-2.0
// What every command does the same way: exit codes, the one line of an error, whether to use
// colour, how a file is written.
#pragma once

#include "trace/result.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace fragscope::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;

/// Prints the error as one line on standard error; gives the exit code.
int complain(const Error& error);

/// The end of a command: `code` once all that was printed has been taken, or one line that says why
/// not.
[[nodiscard]] int printed(int code);

/// The end of a command about one file: its own code once all is printed, or the complaint. What is
/// not about the command line names the file.
int finish(const Result<int>& done, const std::string& file);

/// An error of the system's own, by errno, about a file.
[[nodiscard]] Error system_error(const std::string& path, const char* what);

/// Writes all of it, or fails; `path` names the file in the error.
[[nodiscard]] Result<void> write_all(int file,
                                     const std::string& path,
                                     std::span<const std::byte> bytes);

/// `choice`: auto, always or never. Auto follows the terminal and NO_COLOR.
[[nodiscard]] bool wants_colour(const std::string& choice);

}  // namespace fragscope::cli
