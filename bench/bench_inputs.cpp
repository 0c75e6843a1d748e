// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_inputs.hpp"

#include "bench/child_process.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace fragscope::bench {

std::vector<std::int64_t> event_counts() {
  const char* chosen = std::getenv("FRAGSCOPE_BENCH_EVENTS");
  std::istringstream list(chosen != nullptr ? chosen : "100000,1000000");
  std::vector<std::int64_t> counts;
  for (std::string number; std::getline(list, number, ',');)
    counts.push_back(std::stoll(number));
  return counts;
}

std::string snapshot_path(std::int64_t events) {
  const std::string path = fmt::format("{}/snapshot_{}.pickle", FRAGSCOPE_BENCH_DIR, events);
  if (std::filesystem::exists(path)) return path;
  const std::string unfinished = path + ".part";
  const Child made = run_child(
      {"python3", "bench/make_snapshot.py", unfinished, "--events", std::to_string(events)});
  if (made.exit_code != 0) return {};
  std::filesystem::rename(unfinished, path);
  return path;
}

std::string_view to_string(LogKind kind) {
  static constexpr std::array<std::string_view, 3> kNames = {"quiet", "serving", "failing"};
  return kNames[static_cast<std::size_t>(kind)];
}

LogInput log_input(LogKind kind) {
  const char* chosen = std::getenv("FRAGSCOPE_BENCH_LOG_MB");  // NOLINT(concurrency-mt-unsafe)
  const std::string megabytes = chosen != nullptr ? chosen : "1000";
  LogInput log;
  log.path = fmt::format("{}/log_{}_{}.log", FRAGSCOPE_BENCH_DIR, to_string(kind), megabytes);
  const std::string count_path = log.path + ".messages";
  if (!std::filesystem::exists(count_path)) {
    const Child made = run_child({"python3",
                                  "bench/make_log.py",
                                  log.path,
                                  "--kind",
                                  std::string(to_string(kind)),
                                  "--megabytes",
                                  megabytes});
    if (made.exit_code != 0) return {};
    std::ofstream(count_path) << made.output;
  }
  std::ifstream(count_path) >> log.messages;
  return log;
}

std::uint64_t file_bytes(const std::string& path) {
  return std::filesystem::file_size(path);
}

}  // namespace fragscope::bench
