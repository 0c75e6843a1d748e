// SPDX-License-Identifier: Apache-2.0
// Errors as values: the type every module boundary of the tool returns. Damaged input is the tool's
// normal diet, so an error always says where (byte offset or event) and what was expected there.
// Used by everything; uses nothing of ours.
#pragma once

#include <tl/expected.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace fragscope {

/// What kind of thing went wrong; tests match on it, `Error::describe` does not print it.
enum class ErrorCode : std::uint8_t {
  kUnreadable,     ///< The operating system did not give us the bytes.
  kDamaged,        ///< The bytes end too early or break their own format.
  kForeign,        ///< A well-formed file of another kind, or one that wants code to run.
  kContradictory,  ///< Every record is readable, but together they cannot be true.
  kTooLarge,       ///< A limit that bounds memory or time was reached.
  kUsage,          ///< The command line asks for something that cannot be.
};

/// One failure with its place. `source` is a file name (or "-"), filled in by whoever knows it.
struct Error {
  ErrorCode code = ErrorCode::kDamaged;
  std::string message;  ///< What was expected and what was found.
  std::string source;
  std::optional<std::uint64_t> byte_offset;
  std::optional<std::uint64_t> event_index;

  /// One line without a line break: "FILE: byte 17: expected ..., found ...".
  [[nodiscard]] std::string describe() const {
    std::string line;
    if (!source.empty()) line += source + ": ";
    if (byte_offset) line += "byte " + std::to_string(*byte_offset) + ": ";
    if (event_index) line += "event " + std::to_string(*event_index) + ": ";
    return line + message;
  }
};

/// A value or an `Error`. An alias, since a derived class would break `and_then`; so every function
/// that returns one is marked [[nodiscard]] itself.
template <class T>
using Result = tl::expected<T, Error>;

/// Shorthand for the failing branch of a `Result`.
[[nodiscard]] inline tl::unexpected<Error> failure(ErrorCode code, std::string message) {
  Error error;
  error.code = code;
  error.message = std::move(message);
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace fragscope
