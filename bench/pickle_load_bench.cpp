// SPDX-License-Identifier: Apache-2.0
// The contestant: Python's own pickle.load on the same file, with its garbage collector on (as
// people call it) and off. The time is that of the call alone, the memory that of the process.
#include "bench/bench_inputs.hpp"
#include "bench/child_process.hpp"

#include <benchmark/benchmark.h>

#include <string>

namespace {

using namespace fragscope::bench;

constexpr const char* kScript = R"(
import gc, pickle, sys, time
if sys.argv[2] == "off": gc.disable()
start = time.perf_counter()
with open(sys.argv[1], "rb") as file: snapshot = pickle.load(file)
seconds = time.perf_counter() - start
print(sum(map(len, snapshot["device_traces"])), seconds)
)";

void pickle_load(benchmark::State& state, std::int64_t events, const char* collector) {
  const std::string path = snapshot_path(events);
  for (auto _ : state) {
    const Child child = run_child({"python3", "-c", kScript, path, collector});
    std::size_t used = 0;
    if (child.exit_code != 0 || std::stoll(child.output, &used) < events * 9 / 10) {
      state.SkipWithError("pickle.load did not read the snapshot");
      return;
    }
    state.SetIterationTime(std::stod(child.output.substr(used)));
    state.counters["peak_MiB"] = static_cast<double>(child.peak_bytes >> 20);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(file_bytes(path)) *
                          static_cast<std::int64_t>(state.iterations()));
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const std::int64_t events : event_counts()) {
    for (const char* collector : {"off", "on"}) {
      const std::string name =
          "pickle_load/gc:" + std::string(collector) + "/events:" + std::to_string(events);
      benchmark::RegisterBenchmark(name.c_str(), pickle_load, events, collector)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
