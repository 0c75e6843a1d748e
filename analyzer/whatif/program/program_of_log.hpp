// SPDX-License-Identifier: Apache-2.0
// The program of a log that other allocators write: RMM's CSV (`logging_resource_adaptor`), or
// STAlloc's text. They hold requests and frees, not what the allocator decided, so that the program
// can be tried under any settings but not compared with what was.
#pragma once

#include "analyzer/whatif/program/program.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace fragscope::whatif {

enum class RequestLog : std::uint8_t {
  kRmm,      ///< "Thread,Time,Action,Pointer,Size,Stream", one row for each request and free.
  kStalloc,  ///< "1 0x7f1e41329c00 512 0": handed out; "0 ...": freed; and lines of marks.
};

/// By how the text begins; none: it is no such log.
[[nodiscard]] std::optional<RequestLog> request_log(std::string_view text);

[[nodiscard]] std::string_view to_string(RequestLog log);

/// Events are lines, counted from 0 at the first that is not a header. Of several threads the order
/// of lines is the order of requests. A last line without an end may have been cut, and is left out
/// if it is not whole; any other line that is not what it should be is an error with its number.
[[nodiscard]] Result<Program> program_of_log(std::string_view text, RequestLog log);

}  // namespace fragscope::whatif
