// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/analyzed_file.hpp"
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/job/child_process.hpp"
#include "analyzer/cli/job/trace_collector.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/recording/plural.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/report/text_report.hpp"
#include "trace/process/ring_directory.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace fragscope::cli {
namespace {

using model::show_bytes;
using model::show_count;
using report::printable;

struct RunArguments {
  std::string allocator;
  std::string output;
  std::string ring;
  std::string stacks;
  std::string min_stack_size;
  bool force = false;
  std::vector<std::string> command;
};

/// What the loader in the job's Python reads; see allocator/python/fragscope/loader.py.
constexpr const char* kVariable = "FRAGSCOPE_RUN";

// A job that allocates as fast as it can fills a ring in a tenth of a second.
constexpr auto kShortPause = std::chrono::milliseconds(1);
constexpr auto kLongPause = std::chrono::milliseconds(16);
/// How often new rings are looked for.
constexpr auto kLook = std::chrono::milliseconds(16);

/// A folder for the job's rings, where rings lie.
Result<std::string> make_folder() {
  std::string folder =
      fmt::format("{}/{}{}-XXXXXX", trace::ring_directory(), trace::kJobFolderPrefix, ::getpid());
  if (::mkdtemp(folder.data()) == nullptr) {
    return tl::unexpected(
        system_error(folder, "cannot be made (FRAGSCOPE_RING_DIR names another place)"));
  }
  if (folder.find_first_of(",[]") == std::string::npos) return folder;
  ::rmdir(folder.c_str());
  auto refused =
      failure(ErrorCode::kUsage, "a place for rings has no comma or bracket in its name");
  refused.value().source = folder;
  return refused;
}

/// The settings for the loader.
std::string tokens(const RunArguments& arguments, const std::string& folder) {
  std::string text = "fragscope_dir:" + folder;
  // Without one the variable of PyTorch may name ours; else it is the one that changes nothing.
  if (arguments.allocator == "native") text += ",backend:fragscope_attach";
  if (arguments.allocator == "fragscope") text += ",backend:fragscope";
  if (!arguments.ring.empty()) text += ",fragscope_ring:" + arguments.ring;
  if (!arguments.stacks.empty()) text += ",fragscope_stacks:" + arguments.stacks;
  if (!arguments.min_stack_size.empty()) {
    text += ",fragscope_min_stack_size:" + arguments.min_stack_size;
  }
  return text;
}

/// Until the job has ended.
void follow(ChildProcess& job, TraceCollector& traces) {
  auto next_look = std::chrono::steady_clock::now();
  auto pause = kShortPause;
  while (!job.has_ended()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_look) {
      traces.look();
      next_look = now + kLook;
    }
    pause = traces.pump() > 0 ? kShortPause : std::min(pause * 2, kLongPause);
    std::this_thread::sleep_for(pause);
  }
}

void print_trace(const CollectedTrace& trace) {
  const std::string rank =
      trace.header.process.rank == 0 ? "" : fmt::format("rank {}, ", trace.header.process.rank - 1);
  const std::string whose =
      fmt::format("{}device {} of process {}", rank, trace.header.device, trace.header.process.pid);
  if (trace.path.empty()) {
    fmt::print(stderr, "fragscope: {} was not recorded: {}\n", whose, printable(trace.reason));
    return;
  }
  const std::string lost = trace.counts.overwritten == 0
                               ? ""
                               : fmt::format(", {} overwritten before they were read",
                                             show_count(trace.counts.overwritten));
  fmt::print(stderr,
             "fragscope: {}: {}{}, {}; {}\n",
             printable(trace.path),
             model::plural(trace.counts.records, "record", "records"),
             lost,
             show_bytes(trace.bytes),
             whose);
  if (!trace.reason.empty()) {
    fmt::print(stderr,
               "fragscope: {} is cut short: {}; the ring stays in {}\n",
               printable(trace.path),
               printable(trace.reason),
               printable(trace.ring));
  }
}

void print_verdict(const CollectedTrace& trace, bool has_job_failed) {
  const std::uint64_t failures = trace.header.failures;
  if (trace.path.empty() || failures == 0) return;
  const std::string more = fmt::format("fragscope analyze {}", printable(trace.path));
  if (!has_job_failed) {
    fmt::print(stderr,
               "fragscope: {} request{} failed and the job went on; {} says why\n",
               show_count(failures),
               failures == 1 ? "" : "s",
               more);
    return;
  }
  const auto analyzed = analyze_path(trace.path, {});
  if (!analyzed) {
    Error error = analyzed.error();
    error.source = trace.path;
    static_cast<void>(complain(error));
    return;
  }
  const report::FrameText frames(analyzed->recording, false);
  const report::Paint paint(::isatty(STDERR_FILENO) == 1 && wants_colour("auto"));
  fmt::print(stderr,
             "\n{}  {} shows what this rests on\n",
             report::verdict_summary(analyzed->analysis, frames, trace.path, paint),
             more);
}

int run_run(const RunArguments& arguments) {
  const auto folder = make_folder();
  if (!folder) return complain(folder.error());
  const std::string output =
      arguments.output.empty() ? fmt::format("fragscope-{}.fst", ::getpid()) : arguments.output;
  auto traces = TraceCollector::begin(*folder, output, arguments.force);
  if (!traces) {
    ::rmdir(folder->c_str());
    return complain(traces.error());
  }
  auto job = ChildProcess::start(arguments.command, {{kVariable, tokens(arguments, *folder)}});
  if (!job) {
    static_cast<void>(traces->finish());
    static_cast<void>(complain(job.error()));
    return job.error().code == ErrorCode::kUsage ? kNotFound : kNotRunnable;
  }
  follow(*job, *traces);

  const std::vector<CollectedTrace> collected = traces->finish();
  if (job->has_failed()) fmt::print(stderr, "fragscope: the job ended with {}\n", job->end_text());
  for (const CollectedTrace& trace : collected)
    print_trace(trace);
  if (collected.empty()) {
    fmt::print(stderr,
               "fragscope: nothing was recorded: no process used CUDA through a PyTorch beside "
               "which fragscope is installed, or a line above says what else stood in the way\n");
  }
  for (const CollectedTrace& trace : collected)
    print_verdict(trace, job->has_failed());
  std::fflush(stderr);
  return job->end_like_it();
}

/// As the loader in the job's Python takes it (allocator/python/fragscope/settings.py); it would
/// only be heard of there once the job runs, unrecorded.
std::string check_size(const std::string& text) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::array<std::string_view, 10> kUnits = {
      "", "B", "K", "KiB", "M", "MiB", "G", "GiB", "T", "TiB"};
  const std::size_t unit_at = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = std::string_view(text).substr(0, unit_at);
  const std::size_t point = std::min(number.find('.'), number.size());
  const std::string_view whole = number.substr(0, point);
  const bool has_number = !whole.empty() && whole.size() <= 15;
  const std::string_view behind = point < number.size() ? number.substr(point + 1) : "0";
  const bool has_fraction = !behind.empty() && behind.size() <= 9 &&
                            behind.find_first_not_of(kDigits) == std::string_view::npos;
  const bool has_unit = std::ranges::find(kUnits, text.substr(unit_at)) != kUnits.end();
  if (has_number && has_fraction && has_unit) return "";
  return text + ": expected a size, as 64MiB or 4194304";
}

}  // namespace

void add_run_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Run a command with recording on; ends as the command does, and says why if it died for "
      "lack of GPU memory");
  command
      ->add_option("--allocator",
                   arguments->allocator,
                   "native: PyTorch's own, which recording does not change (default); fragscope: "
                   "the same rules in an allocator of ours")
      ->check(CLI::IsMember({"native", "fragscope"}));
  command->add_option(
      "-o,--out", arguments->output, "Trace file to make (default: fragscope-PID.fst)");
  command->add_option("--ring", arguments->ring, "SIZE of a device's ring in memory")
      ->check(CLI::Validator(check_size, "SIZE"));
  command->add_option("--stacks", arguments->stacks, "Call stacks: off, python or all")
      ->check(CLI::IsMember({"off", "python", "all"}));
  command
      ->add_option("--min-stack-size",
                   arguments->min_stack_size,
                   "Call stacks only for requests of this SIZE")
      ->check(CLI::Validator(check_size, "SIZE"));
  command->add_flag("--force", arguments->force, "Overwrite the file");
  command->add_option("COMMAND", arguments->command, "-- and what to run")->required();
  command->positionals_at_end();
  command->callback([arguments, &run] { run = [arguments] { return run_run(*arguments); }; });
}

}  // namespace fragscope::cli
