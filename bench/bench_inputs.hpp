// SPDX-License-Identifier: Apache-2.0
// The files that are measured: written by bench/make_snapshot.py and bench/make_log.py on first use
// and kept in the build folder. FRAGSCOPE_BENCH_EVENTS names other sizes of snapshots than 100000
// and 1000000 events (comma-separated), FRAGSCOPE_BENCH_LOG_MB another size of logs than 1000.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::bench {

/// The numbers of events to measure.
[[nodiscard]] std::vector<std::int64_t> event_counts();

/// Path of a snapshot of about `events` events; writes it if it is not there. Empty if that failed.
[[nodiscard]] std::string snapshot_path(std::int64_t events);

/// How much of what `explain` looks for a log holds; see bench/make_log.py.
enum class LogKind : std::uint8_t { kQuiet, kServing, kFailing };
[[nodiscard]] std::string_view to_string(LogKind kind);

struct LogInput {
  std::string path;           ///< Empty if it could not be written.
  std::int64_t messages = 0;  ///< Out-of-memory messages in it, each with figures of its own.
};

[[nodiscard]] LogInput log_input(LogKind kind);

[[nodiscard]] std::uint64_t file_bytes(const std::string& path);

}  // namespace fragscope::bench
