// SPDX-License-Identifier: Apache-2.0
// The whole of `fragscope analyze` of a trace as a process, from start to exit: how long, and
// whether its memory grows with the number of records. FRAGSCOPE_BENCH_RECORDS names other numbers
// than 1000000 and 10000000 (comma-separated); inputs are kept in the build folder.
#include "bench/bench_inputs.hpp"
#include "bench/child_process.hpp"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

namespace {

using namespace fragscope::bench;

std::string trace_path(const std::string& records) {
  const std::string path = std::string(FRAGSCOPE_BENCH_DIR) + "/trace_" + records + ".fst";
  if (std::filesystem::exists(path)) return path;
  const std::string unfinished = path + ".part";
  const Child made = run_child({FRAGSCOPE_MAKE_TRACE, unfinished, "--events", records});
  if (made.exit_code != 0) return {};
  std::filesystem::rename(unfinished, path);
  return path;
}

void analyze_trace(benchmark::State& state, const std::string& records) {
  const std::string path = trace_path(records);
  if (path.empty()) return state.SkipWithError("the trace could not be made");
  for (auto _ : state) {
    const Child child = run_child({FRAGSCOPE_PROGRAM, "analyze", path});
    // The loop ends in a failure; a run that found none has not done the work.
    if (child.exit_code != 0 || child.output.find("LADDER") == std::string::npos) {
      return state.SkipWithError("analyze did not find the failure");
    }
    state.SetIterationTime(child.seconds);
    state.counters["peak_MiB"] = static_cast<double>(child.peak_bytes >> 20);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(std::stoll(records)) *
                          static_cast<std::int64_t>(state.iterations()));
}

[[maybe_unused]] const bool kRegistered = [] {
  const char* chosen = std::getenv("FRAGSCOPE_BENCH_RECORDS");  // NOLINT(concurrency-mt-unsafe)
  std::istringstream list(chosen != nullptr ? chosen : "1000000,10000000");
  for (std::string records; std::getline(list, records, ',');) {
    benchmark::RegisterBenchmark(
        ("analyze_trace/records:" + records).c_str(),
        [records](benchmark::State& state) { analyze_trace(state, records); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
