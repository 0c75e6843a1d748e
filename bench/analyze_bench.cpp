// SPDX-License-Identifier: Apache-2.0
// Ours: the whole of `fragscope analyze` as a process, from start to exit.
#include "bench/bench_inputs.hpp"
#include "bench/child_process.hpp"

#include <benchmark/benchmark.h>

#include <string>

namespace {

using namespace fragscope::bench;

void analyze_process(benchmark::State& state, std::int64_t events) {
  const std::string path = snapshot_path(events);
  for (auto _ : state) {
    const Child child = run_child({FRAGSCOPE_PROGRAM, "analyze", path});
    // The generator's program ends in a failure; a run that found none has not done the work.
    if (child.exit_code != 0 || child.output.find("LADDER") == std::string::npos) {
      state.SkipWithError("analyze did not find the failure");
      return;
    }
    state.SetIterationTime(child.seconds);
    state.counters["peak_MiB"] = static_cast<double>(child.peak_bytes >> 20);
    state.counters["peak/file"] =
        static_cast<double>(child.peak_bytes) / static_cast<double>(file_bytes(path));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(file_bytes(path)) *
                          static_cast<std::int64_t>(state.iterations()));
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const std::int64_t events : event_counts()) {
    const std::string name = "analyze_process/events:" + std::to_string(events);
    benchmark::RegisterBenchmark(name.c_str(), analyze_process, events)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
