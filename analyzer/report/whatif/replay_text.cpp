// SPDX-License-Identifier: Apache-2.0
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/recording/plural.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/report/whatif/replay_report.hpp"
#include "analyzer/whatif/driver_time.hpp"
#include "analyzer/whatif/program/dependence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::report {
namespace {

using model::plural;
using model::show_bytes;
using model::show_count;
using whatif::Op;
using whatif::OpKind;
using whatif::Trial;

constexpr std::size_t kContextOps = 5;

std::string_view name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kAllocate:
      return "allocate";
    case OpKind::kFree:
      return "free";
    case OpKind::kRecordStream:
      return "use on another stream";
    case OpKind::kComplete:
      return "other streams are done";
    case OpKind::kEmptyCache:
      return "empty the cache";
    case OpKind::kRelease:
      return "memory goes back for the next request";
    case OpKind::kReleasePool:
      return "nobody uses the pool";
    case OpKind::kUsePool:
      return "the pool is used again";
    case OpKind::kLimit:
      return "set the limit";
    case OpKind::kSettings:
      return "set options";
    case OpKind::kExpandable:
      return "expandable segments on or off";
    case OpKind::kCapture:
      return "graph capture begins or ends";
    case OpKind::kMark:
      return "mark";
  }
  return "?";
}

/// "850 ns", "12.30 us", "4.56 ms", "1.23 s".
std::string show_time(std::uint64_t nanoseconds) {
  constexpr std::array<std::string_view, 3> kUnits = {"us", "ms", "s"};
  if (nanoseconds < 1000) return fmt::format("{} ns", nanoseconds);
  double value = static_cast<double>(nanoseconds) / 1000;
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit)
    value /= 1000;
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

/// What the estimates of driver time rest on.
std::string basis_of(const whatif::DriverTimes& times) {
  constexpr std::array<std::string_view, whatif::kDeviceCallKinds> kNames = {
      "segments obtained", "segments given back", "pages mapped", "pages unmapped"};
  std::uint64_t calls = 0;
  std::uint64_t total_ns = 0;
  std::string medians;
  for (std::size_t kind = 0; kind < times.size(); ++kind) {
    const whatif::CallTimes& of = times[kind];
    if (of.calls == 0) continue;
    calls += of.calls;
    total_ns += of.total_ns;
    medians += fmt::format("{}{} {} ({})",
                           medians.empty() ? "" : ", ",
                           kNames[kind],
                           show_time(of.median_ns),
                           show_count(of.calls));
  }
  if (calls == 0) return "time of driver calls: not measured in this recording";
  return fmt::format(
      "time of driver calls: estimated from {} of this recording, which took {} in all; medians: "
      "{}",
      plural(calls, "call", "calls"),
      show_time(total_ns),
      medians);
}

class TextWriter {
 public:
  TextWriter(const ReplayReport& report, const Paint& paint)
      : report_(report)
      , program_(report.program)
      , times_(whatif::driver_times(report.program))
      , has_times_(std::ranges::any_of(times_, [](const auto& of) { return of.calls > 0; }))
      , paint_(paint) {}

  [[nodiscard]] std::string write(const std::string& path) {
    out_ += fmt::format("{}  ({}, {}, device {})\n\n",
                        paint_(Tone::kTitle, printable(path)),
                        report_.recording.kind,
                        printable(report_.recording.writer),
                        report_.device);
    write_verification();
    write_doubts();
    write_trials();
    return std::move(out_);
  }

 private:
  void write_verification() {
    if (!report_.verification) {
      out_ += fmt::format("not verified: the log has requests alone; {}.\n",
                          plural(program_.ops.size(), "operation", "operations"));
      return;
    }
    const whatif::Verification& found = *report_.verification;
    const std::string counts = fmt::format("{}, {} of them refused, {} in all",
                                           plural(found.requests, "request", "requests"),
                                           show_count(found.refusals),
                                           plural(program_.ops.size(), "operation", "operations"));
    if (program_.ops.empty()) {
      out_ += "not verified: the recording holds no operation that could be run again.\n";
      return;
    }
    if (!found.first) {
      out_ += paint_(Tone::kGood, "verified") +
              fmt::format(": the rules of {} decide all of it as recorded: {}.\n",
                          policy::releases_of(program_.version),
                          counts);
      return;
    }
    const Op& op = program_.ops[found.first->op];
    out_ += paint_(Tone::kBad, "differs") +
            fmt::format(" at event {}, after {} of {} operations, from the rules of {}:\n",
                        program_.event_of(op),
                        show_count(found.agreed),
                        show_count(program_.ops.size()),
                        policy::releases_of(program_.version));
    out_ += wrapped(found.first->what + ".", kTextWidth, 2);
    out_ += "  before it:\n";
    const std::size_t first = found.first->op - std::min(found.first->op, kContextOps);
    for (std::size_t i = first; i < found.first->op; ++i)
      out_ += "    " + describe(program_, program_.ops[i]) + "\n";
  }

  void write_doubts() {
    if (report_.verification && !report_.verification->problem.empty()) {
      out_ += wrapped("the program sets options that these rules do not take: " +
                          printable(report_.verification->problem),
                      kTextWidth,
                      2);
    }
    for (const std::string& doubt : program_.doubts)
      out_ += wrapped("not in the recording: " + doubt, kTextWidth, 2);
    if (!report_.trials.empty()) out_ += dependences_text(program_);
  }

  void write_trials() {
    if (!report_.no_trial_reason.empty()) {
      out_ += "\n" + wrapped(report_.no_trial_reason, kTextWidth, 0);
    }
    if (report_.trials.empty()) return;
    Table table;
    std::vector<Cell> head = {left("settings"),
                              left("outcome"),
                              right("reserved at most"),
                              right("above the first"),
                              right("allocated at most"),
                              right("driver calls")};
    if (has_times_) head.push_back(right("their time"));
    table.add(std::move(head));
    for (const Trial& trial : report_.trials)
      table.add(row_of(trial));
    out_ += "\n" + table.text(paint_) + "\n" + wrapped(basis_of(times_), kTextWidth, 0);
    for (const Trial& trial : report_.trials)
      write_details(trial);
  }

  [[nodiscard]] std::vector<Cell> row_of(const Trial& trial) const {
    const whatif::Outcome& outcome = trial.outcome;
    const Cell result =
        outcome.first_failure
            ? left(fmt::format("fails at event {}",
                               program_.event_of(program_.ops[outcome.first_failure->op])),
                   Tone::kBad)
            : left("fits", Tone::kGood);
    std::vector<Cell> row = {left(printable(trial.variant.name)),
                             result,
                             right(show_bytes(outcome.peak_reserved_bytes)),
                             right(difference_to_first(outcome)),
                             right(show_bytes(outcome.peak_allocated_bytes)),
                             right(show_count(outcome.driver_allocations + outcome.driver_frees))};
    if (!has_times_) return row;
    const auto time = whatif::estimated_ns(times_, trial.variant, outcome);
    row.push_back(right(time ? show_time(*time) : "not measured"));
    return row;
  }

  /// In bytes: the exact figures that the rounded ones beside it hide.
  [[nodiscard]] std::string difference_to_first(const whatif::Outcome& outcome) const {
    const std::uint64_t first = report_.trials.front().outcome.peak_reserved_bytes;
    const std::uint64_t bytes = outcome.peak_reserved_bytes;
    if (bytes == first) return "";
    return (bytes > first ? "+" : "-") + show_count(bytes > first ? bytes - first : first - bytes) +
           " B";
  }

  static std::string rules_of(const whatif::Variant& variant) {
    return variant.arena ? fmt::format("a plain {} allocator", to_string(*variant.arena))
                         : std::string(policy::releases_of(variant.options.version));
  }

  void write_details(const Trial& trial) {
    const whatif::Outcome& outcome = trial.outcome;
    out_ += "\n" + paint_(Tone::kTitle, printable(trial.variant.name)) +
            fmt::format(", {} on a device of {}{}{}\n",
                        rules_of(trial.variant),
                        show_bytes(trial.variant.device_bytes),
                        outside_text(trial.variant),
                        limit_text(trial.variant));
    out_ += fmt::format(
        "  reserved at most {} bytes, allocated at most {} bytes (layers: the second lies within "
        "the first)\n",
        show_count(outcome.peak_reserved_bytes),
        show_count(outcome.peak_allocated_bytes));
    const model::Gap& gap = trial.peak.gap;
    out_ += fmt::format(
        "  gap at the most allocated moment: rounding {}, pending {}, releasable {}, stuck {}\n",
        gap.rounding_bytes ? show_bytes(*gap.rounding_bytes) : "not known",
        show_bytes(gap.pending_bytes),
        show_bytes(gap.releasable_bytes),
        show_bytes(gap.stuck_bytes));
    out_ += fmt::format("  driver: {} asked for memory, {} given some back; {}\n",
                        plural(outcome.driver_allocations, "time", "times"),
                        plural(outcome.driver_frees, "time", "times"),
                        plural(outcome.retries, "retry", "retries"));
    if (outcome.first_failure) write_failure(outcome);
    if (outcome.served_refusals > 0) {
      out_ += wrapped(
          fmt::format("serves {} refused in the recording; what the program would have "
                      "done then is not known",
                      plural(outcome.served_refusals, "request that was", "requests that were")),
          kTextWidth,
          2);
    }
  }

  [[nodiscard]] static std::string outside_text(const whatif::Variant& variant) {
    std::string text;
    if (variant.outside_bytes > 0) {
      text = fmt::format(", {} of it used by others", show_bytes(variant.outside_bytes));
    }
    for (const whatif::OutsideChange& change : variant.outside_changes)
      text += fmt::format(", {} from event {} on", show_bytes(change.bytes), change.event);
    return text;
  }
  [[nodiscard]] static std::string limit_text(const whatif::Variant& variant) {
    return variant.limit_bytes ? fmt::format(", limit {}", show_bytes(*variant.limit_bytes)) : "";
  }

  void write_failure(const whatif::Outcome& outcome) {
    const whatif::FailedOp& failed = *outcome.first_failure;
    const verdict::Verdict& verdict = failed.verdict;
    out_ += wrapped(fmt::format("a request of {} bytes is refused: {} ({}). {}",
                                show_count(failed.bytes),
                                verdict::to_string(verdict.kind),
                                verdict::to_string(verdict.certainty),
                                verdict.text),
                    kTextWidth,
                    2);
    if (outcome.is_cut_short) {
      out_ += "  it was served in the recording: the program would have ended here\n";
    }
  }

  const ReplayReport& report_;
  const whatif::Program& program_;
  whatif::DriverTimes times_;
  bool has_times_;
  const Paint& paint_;
  std::string out_;
};

}  // namespace

std::string describe(const whatif::Program& program, const Op& op) {
  std::string line = fmt::format("event {}: {}", program.event_of(op), name_of(op.kind));
  if (op.kind == OpKind::kAllocate) {
    line += fmt::format(" {} bytes on stream {:#x}{}",
                        show_count(op.bytes),
                        program.streams[op.stream],
                        op.failed ? ", refused" : "");
    const policy::PoolId& pool = program.pools[op.pool];
    if (op.pool != 0) line += fmt::format(", pool ({},{})", pool.first, pool.second);
  }
  return line;
}

std::string dependences_text(const whatif::Program& program) {
  std::string text;
  for (const whatif::Dependence& each : whatif::dependences_of(program)) {
    text +=
        wrapped(fmt::format("may depend on memory: {} {}, first at event {}; with other settings "
                            "it might have asked for something else from there on",
                            show_count(each.count),
                            each.what,
                            each.first_event),
                kTextWidth,
                2);
  }
  return text;
}

std::string replay_text(const ReplayReport& report, const std::string& path, const Paint& paint) {
  return TextWriter(report, paint).write(path);
}

}  // namespace fragscope::report
