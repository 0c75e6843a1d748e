// SPDX-License-Identifier: Apache-2.0
// A recorded training loop, run again: through our policy on the simulated device, at two lengths;
// under twenty settings; for the smallest device; and the same requests through PyTorch's own
// allocator, where FRAGSCOPE_NATIVE_ALLOCATOR names the library around it
// (scripts/replay_bench.sh). FRAGSCOPE_BENCH_RECORDS names another length than 1000000 records.
#include "analyzer/model/trace/trace_history.hpp"
#include "analyzer/whatif/fit.hpp"
#include "analyzer/whatif/program/program_of_trace.hpp"
#include "analyzer/whatif/recorded/settle.hpp"
#include "analyzer/whatif/recorded/verify.hpp"
#include "bench/child_process.hpp"
#include "tests/fidelity/native/native_allocator.hpp"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace fragscope;
using whatif::Program;

/// The program of a trace of so many records, made once; null if it could not be.
const Program* program_of(std::uint64_t records) {
  static std::map<std::uint64_t, std::unique_ptr<Program>> programs;
  std::unique_ptr<Program>& program = programs[records];
  if (program != nullptr) return program.get();
  const std::string path =
      std::string(FRAGSCOPE_BENCH_DIR) + "/trace_" + std::to_string(records) + ".fst";
  if (!std::filesystem::exists(path)) {
    const std::string unfinished = path + ".part";
    const bench::Child made =
        bench::run_child({FRAGSCOPE_MAKE_TRACE, unfinished, "--events", std::to_string(records)});
    if (made.exit_code != 0) return nullptr;
    std::filesystem::rename(unfinished, path);
  }
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  model::Recording recording;
  const auto history = model::TraceHistory::open(std::as_bytes(std::span(bytes)), recording);
  if (!history) return nullptr;
  auto made = whatif::program_of_trace(**history, recording);
  if (!made) return nullptr;
  whatif::settle(*made);
  if (whatif::verify(*made).first) return nullptr;
  program = std::make_unique<Program>(std::move(*made));
  return program.get();
}

std::uint64_t records_of_run() {
  const char* chosen = std::getenv("FRAGSCOPE_BENCH_RECORDS");  // NOLINT(concurrency-mt-unsafe)
  return chosen == nullptr ? 1'000'000 : std::strtoull(chosen, nullptr, 10);
}

void count_events(benchmark::State& state, const Program& program, std::int64_t runs = 1) {
  state.SetItemsProcessed(runs * static_cast<std::int64_t>(program.ops.size()) *
                          static_cast<std::int64_t>(state.iterations()));
  state.counters["ops"] = static_cast<double>(program.ops.size());
}

/// As recorded, on one core.
void replay(benchmark::State& state, std::uint64_t records) {
  const Program* program = program_of(records);
  if (program == nullptr) return state.SkipWithError("no program, or one that does not verify");
  const whatif::Variant variant = *whatif::recorded_variant(*program);
  for (auto _ : state) {
    const whatif::Outcome outcome = whatif::run(*program, variant);
    if (!outcome.first_failure) return state.SkipWithError("the recorded failure did not come");
  }
  count_events(state, *program);
}

void verify(benchmark::State& state, std::uint64_t records) {
  const Program* program = program_of(records);
  if (program == nullptr) return state.SkipWithError("no program, or one that does not verify");
  for (auto _ : state) {
    if (whatif::verify(*program).first) return state.SkipWithError("it differs");
  }
  count_events(state, *program);
}

/// Twenty settings, once each, on all cores.
void settings(benchmark::State& state, std::uint64_t records) {
  const Program* program = program_of(records);
  if (program == nullptr) return state.SkipWithError("no program, or one that does not verify");
  const whatif::Variant base = *whatif::recorded_variant(*program);
  std::vector<whatif::Variant> variants;
  for (int i = 0; i < 10; ++i) {
    const std::string split = "max_split_size_mb:" + std::to_string(20 + 40 * i);
    variants.push_back(*whatif::with_options(base, split));
    variants.push_back(*whatif::with_options(base, split + ",expandable_segments:True"));
  }
  for (auto _ : state) {
    const auto trials = whatif::try_all(*program, variants);
    if (trials.size() != variants.size()) return state.SkipWithError("some are missing");
  }
  count_events(state, *program, static_cast<std::int64_t>(variants.size()));
}

/// What `fragscope fit` does.
void fit(benchmark::State& state, std::uint64_t records) {
  const Program* program = program_of(records);
  if (program == nullptr) return state.SkipWithError("no program, or one that does not verify");
  const whatif::Variant base = whatif::recorded_variant_on(*program, 0);
  std::vector<whatif::Variant> variants{base};
  for (const std::string& conf : whatif::settings_worth_trying())
    variants.push_back(*whatif::with_options(base, conf));
  std::uint64_t sizes = 0;
  for (auto _ : state) {
    for (const whatif::Fit& found : whatif::find_fits(*program, variants))
      sizes += found.sizes_tried;
  }
  state.counters["sizes"] = static_cast<double>(sizes) / static_cast<double>(state.iterations());
}

/// The same requests and frees through PyTorch's allocator.
void native(benchmark::State& state, std::uint64_t records) {
  const Program* program = program_of(records);
  const char* library = std::getenv("FRAGSCOPE_NATIVE_ALLOCATOR");  // NOLINT(concurrency-mt-unsafe)
  const auto make = library == nullptr ? nullptr : fidelity::load_native_allocator(library);
  fidelity::NativeAllocator* allocator = make == nullptr ? nullptr : make();
  if (program == nullptr || allocator == nullptr) return state.SkipWithError("not to be had");
  std::vector<fidelity::TimedStep> steps;
  for (const whatif::Op& op : program->ops) {
    const bool counts =
        op.kind == whatif::OpKind::kFree || (op.kind == whatif::OpKind::kAllocate && !op.failed);
    if (counts) steps.push_back({op.slot, op.bytes});
  }
  if (program->slot_count > fidelity::kTimedSlots) return state.SkipWithError("too many slots");
  for (auto _ : state) {
    state.SetIterationTime(static_cast<double>(allocator->time(steps)) * 1e-9);
    // What is still held at the end: a second run would free it.
    std::vector<fidelity::TimedStep> held;
    std::vector<bool> is_held(program->slot_count, false);
    for (const fidelity::TimedStep& step : steps)
      is_held[step.slot] = !is_held[step.slot];
    for (std::uint32_t slot = 0; slot < program->slot_count; ++slot) {
      if (is_held[slot]) held.push_back({slot, 0});
    }
    static_cast<void>(allocator->time(held));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(steps.size()) *
                          static_cast<std::int64_t>(state.iterations()));
}

[[maybe_unused]] const bool kRegistered = [] {
  const std::uint64_t records = records_of_run();
  const auto add = [](const std::string& name, auto run, std::uint64_t length) {
    return benchmark::RegisterBenchmark(
               (name + "/records:" + std::to_string(length)).c_str(),
               [run, length](benchmark::State& state) { run(state, length); })
        ->Unit(benchmark::kMillisecond);
  };
  add("replay", replay, records);
  add("replay", replay, records * 10);
  add("verify", verify, records);
  add("settings", settings, records)->UseRealTime();
  add("fit", fit, records)->UseRealTime()->Iterations(1);
  if (std::getenv("FRAGSCOPE_NATIVE_ALLOCATOR") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    add("native", native, records)->UseManualTime();
  }
  return true;
}();

}  // namespace
