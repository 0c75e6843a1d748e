// SPDX-License-Identifier: Apache-2.0
// `fragscope explain` beside GNU grep, as processes, on the same log in the same run. Grep counts
// the lines that hold any of the phrases that `explain` looks for; explain reads, judges and prints
// what it finds there. The file is in the page cache for both.
#include "analyzer/explain/message/message_reader.hpp"
#include "analyzer/stages/timeline_builder.hpp"
#include "bench/bench_inputs.hpp"
#include "bench/child_process.hpp"

#include <benchmark/benchmark.h>

#include <string>
#include <string_view>

namespace {

using namespace fragscope::bench;

void explain_process(benchmark::State& state, LogKind kind) {
  const LogInput log = log_input(kind);
  for (auto _ : state) {
    const Child child = run_child({FRAGSCOPE_PROGRAM, "explain", "--json", log.path});
    std::int64_t found = 0;
    constexpr std::string_view kKey = "\"kind\":";
    for (auto at = child.output.find(kKey); at != std::string::npos;
         at = child.output.find(kKey, at + 1)) {
      ++found;
    }
    if (child.exit_code != 0 || found != log.messages) {
      state.SkipWithError("explain did not find the messages");
      return;
    }
    state.SetIterationTime(child.seconds);
    state.counters["peak_MiB"] = static_cast<double>(child.peak_bytes >> 20);
    state.counters["messages"] = static_cast<double>(found);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(file_bytes(log.path)) *
                          static_cast<std::int64_t>(state.iterations()));
}

/// All phrases as one extended regular expression. A phrase for a whole line has its line breaks.
std::string expression() {
  std::string joined;
  for (const auto phrases :
       {fragscope::explain::message_phrases(), fragscope::stages::stage_phrases()}) {
    for (const std::string_view phrase : phrases) {
      if (!joined.empty()) joined += '|';
      for (const char c : phrase) {
        if (std::string_view(R"(\.[]{}()*+?^$|)").find(c) != std::string_view::npos) joined += '\\';
        const bool at_start = joined.empty() || joined.back() == '|';
        joined += c != '\n' ? c : at_start ? '^' : '$';
      }
    }
  }
  return joined;
}

void grep_process(benchmark::State& state, LogKind kind) {
  const LogInput log = log_input(kind);
  const std::string phrases = expression();
  for (auto _ : state) {
    const Child child =
        run_child({"env", "LC_ALL=C", "grep", "-ciE", "-e", phrases, "--", log.path});
    if (child.exit_code > 1 || std::stoll("0" + child.output) < log.messages) {
      state.SkipWithError("grep did not find the messages");
      return;
    }
    state.SetIterationTime(child.seconds);
    state.counters["lines"] = std::stod("0" + child.output);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(file_bytes(log.path)) *
                          static_cast<std::int64_t>(state.iterations()));
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const LogKind kind : {LogKind::kQuiet, LogKind::kServing, LogKind::kFailing}) {
    const std::string log = "/log:" + std::string(to_string(kind));
    const auto add = [&log, kind](const std::string& contestant, auto run) {
      benchmark::RegisterBenchmark((contestant + log).c_str(), run, kind)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    };
    add("explain_process", explain_process);
    add("grep_process", grep_process);
  }
  return true;
}();

}  // namespace
