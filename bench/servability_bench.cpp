// SPDX-License-Identifier: Apache-2.0
// The two ways to ask whether a request would have been served: the walk, which follows the free
// runs event by event and so knows the answer at all of them, and the scans of kernels/ over the
// blocks of as many heaps as moments are asked about. What a scan costs grows with the blocks at
// home, which the rows count, so that it can be told from how many moments on the walk is cheaper.
#include "analyzer/ingest/byte_source.hpp"
#include "analyzer/ingest/torch_snapshot.hpp"
#include "analyzer/model/timeline.hpp"
#include "analyzer/servability/moment.hpp"
#include "analyzer/servability/size_map.hpp"
#include "bench/bench_inputs.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace fragscope;
using namespace fragscope::bench;

/// A snapshot with its history, and the request that failed last in it.
struct Asked {
  model::Recording recording;
  std::unique_ptr<const model::Timeline> history;
  servability::Watch watch;
};

/// Read once for each size; null: it cannot be had, or nothing failed in it.
const Asked* asked_of(std::int64_t events) {
  static std::vector<std::pair<std::int64_t, std::unique_ptr<Asked>>> kept;
  for (const auto& [size, asked] : kept)
    if (size == events) return asked.get();
  const auto source = ingest::ByteSource::open(snapshot_path(events));
  auto recording =
      source ? ingest::read_torch_snapshot(source->bytes()) : tl::unexpected(source.error());
  if (!recording) return nullptr;
  auto asked = std::make_unique<Asked>();
  asked->recording = std::move(*recording);
  asked->history = std::make_unique<model::Timeline>(asked->recording,
                                                     asked->recording.traces.front().device,
                                                     model::find_rounding_rule(asked->recording));
  const auto failed = asked->history->failed_requests();
  if (failed.empty()) return nullptr;
  asked->watch.request.size_bytes = failed.back().size_bytes;
  asked->watch.request.stream = failed.back().stream;
  asked->watch.until = failed.back().event;
  asked->watch.room.free_bytes = failed.back().device_free_bytes.value_or(0);
  return kept.emplace_back(events, std::move(asked)).second.get();
}

void walk(benchmark::State& state, std::int64_t events) {
  const Asked* const asked = asked_of(events);
  if (asked == nullptr) return state.SkipWithError("no failed request to ask about");
  for (auto _ : state) {
    const auto moments = servability::find_moments(
        *asked->history, {&asked->watch, 1}, asked->recording.settings.rules);
    if (!moments.front().known_from) return state.SkipWithError("the heap is not known");
    benchmark::DoNotOptimize(moments);
  }
  state.SetItemsProcessed(events * static_cast<std::int64_t>(state.iterations()));
}

/// The heaps are rebuilt in one pass over the history, which is part of what a scan costs.
void scan(benchmark::State& state, std::int64_t events, std::int64_t moments) {
  const Asked* const asked = asked_of(events);
  if (asked == nullptr) return state.SkipWithError("no failed request to ask about");
  std::vector<model::EventIndex> targets;
  for (std::int64_t i = 1; i <= moments; ++i)
    targets.push_back(asked->watch.until * i / moments);
  std::uint64_t blocks = 0;
  asked->history->visit_states_until(targets, [&](model::EventIndex, const model::HeapState& heap) {
    for (const model::HeapSegment& segment : heap.segments)
      if (segment.home == asked->watch.request.home(false)) blocks += segment.block_count;
    return true;
  });
  for (auto _ : state) {
    const auto map = servability::find_size_map(*asked->history,
                                                asked->watch,
                                                {asked->watch.request.size_bytes},
                                                targets,
                                                asked->recording.settings.rules,
                                                kernels::Device::kAuto);
    // The last moment is the failure.
    if (!map || map->means_for(0, map->moments.size() - 1) == servability::Means::kHole) {
      return state.SkipWithError("a request that failed is said to be served");
    }
    benchmark::DoNotOptimize(map);
  }
  state.counters["blocks"] = static_cast<double>(blocks) / static_cast<double>(moments);
  state.SetItemsProcessed(moments * static_cast<std::int64_t>(state.iterations()));
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const std::int64_t events : event_counts()) {
    const std::string size = "/events:" + std::to_string(events);
    benchmark::RegisterBenchmark(("walk" + size).c_str(), walk, events)
        ->Unit(benchmark::kMillisecond);
    for (const std::int64_t moments : {1, 60, 600, 6000}) {
      const std::string name = "scan" + size + "/moments:" + std::to_string(moments);
      benchmark::RegisterBenchmark(name.c_str(), scan, events, moments)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
