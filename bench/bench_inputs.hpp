// SPDX-License-Identifier: Apache-2.0
// The snapshots that are measured: written by bench/make_snapshot.py on first use and kept in the
// build folder. FRAGSCOPE_BENCH_EVENTS names other sizes than 100000 and 1000000 (comma-separated).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::bench {

/// The numbers of events to measure.
[[nodiscard]] std::vector<std::int64_t> event_counts();

/// Path of a snapshot of about `events` events; writes it if it is not there. Empty if that failed.
[[nodiscard]] std::string snapshot_path(std::int64_t events);

[[nodiscard]] std::uint64_t file_bytes(const std::string& path);

}  // namespace fragscope::bench
