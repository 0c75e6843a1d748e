// SPDX-License-Identifier: Apache-2.0
// The time stamps that loggers put in front of a line. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace fragscope::logtext {

/// What a stamp counts from. Stamps of one log with the same origin can be subtracted.
enum class TimeOrigin : std::uint8_t { kEpoch, kYear, kDay, kProgram };

struct TimeStamp {
  std::int64_t ms = 0;  ///< Since the origin; no time zone is applied.
  TimeOrigin origin = TimeOrigin::kEpoch;
  std::size_t length = 0;  ///< In the text, with its zone ("Z", "+02:00").
};

/// The time stamp that `text` begins with:
///   2025-01-31 10:00:00,123   2025-01-31T10:00:00.123456Z   01-31 10:00:00   10:00:00
///   2025-01-31, 10:00:00 UTC  Airflow
///   01/31/2025-10:00:00       TensorRT-LLM
///   Jan 31 10:00:00           syslog, without the host that follows
///   E0131 10:00:00.123456     glog, with the letter of the level in front
///   0.12.345.678              llama.cpp: minutes, seconds, milliseconds, microseconds since start
[[nodiscard]] std::optional<TimeStamp> read_time_stamp(std::string_view text);

}  // namespace fragscope::logtext
