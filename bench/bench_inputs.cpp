// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_inputs.hpp"

#include "bench/child_process.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
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

std::uint64_t file_bytes(const std::string& path) {
  return std::filesystem::file_size(path);
}

}  // namespace fragscope::bench
