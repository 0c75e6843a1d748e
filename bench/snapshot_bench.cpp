// SPDX-License-Identifier: Apache-2.0
// The parts of `analyze` inside one process: the parser alone, the rebuilt timeline alone.
#include "analyzer/ingest/byte_source.hpp"
#include "analyzer/ingest/torch_snapshot.hpp"
#include "analyzer/model/timeline.hpp"
#include "bench/bench_inputs.hpp"

#include <benchmark/benchmark.h>

#include <string>

namespace {

using namespace fragscope;
using namespace fragscope::bench;

void count_events(benchmark::State& state, std::int64_t events) {
  state.SetItemsProcessed(events * static_cast<std::int64_t>(state.iterations()));
}

void parse_snapshot(benchmark::State& state, std::int64_t events) {
  const std::string path = snapshot_path(events);
  const auto source = ingest::ByteSource::open(path);
  for (auto _ : state) {
    const auto recording =
        source ? ingest::read_torch_snapshot(source->bytes()) : tl::unexpected(source.error());
    if (!recording || static_cast<std::int64_t>(recording->events.size()) < events * 9 / 10) {
      state.SkipWithError("the snapshot was not read");
      return;
    }
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(file_bytes(path)) *
                          static_cast<std::int64_t>(state.iterations()));
  count_events(state, events);
}

void rebuild_timeline(benchmark::State& state, std::int64_t events) {
  const auto source = ingest::ByteSource::open(snapshot_path(events));
  const auto recording =
      source ? ingest::read_torch_snapshot(source->bytes()) : tl::unexpected(source.error());
  if (!recording) {
    state.SkipWithError("the snapshot was not read");
    return;
  }
  const model::RoundingRule rule = model::find_rounding_rule(*recording);
  for (auto _ : state) {
    const model::Timeline timeline(*recording, recording->traces.front().device, rule);
    if (timeline.counts().end_mismatches != 0 || timeline.peak().event < 0) {
      state.SkipWithError("redo does not arrive at the recorded end");
      return;
    }
  }
  count_events(state, events);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const std::int64_t events : event_counts()) {
    const std::string size = "/events:" + std::to_string(events);
    benchmark::RegisterBenchmark(("parse_snapshot" + size).c_str(), parse_snapshot, events)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("rebuild_timeline" + size).c_str(), rebuild_timeline, events)
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
