// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/input/history_file.hpp"

#include "analyzer/analysis/trust_signals.hpp"
#include "analyzer/cli/progress.hpp"
#include "analyzer/ingest/torch_snapshot.hpp"
#include "analyzer/model/timeline.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/whatif/program/program_of_snapshot.hpp"
#include "analyzer/whatif/program/program_of_trace.hpp"
#include "trace/file/trace_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

namespace fragscope::cli {
namespace {

/// Devices with a history; where a state will do and none has one, those with a segment.
std::set<std::int32_t> devices_of(const model::Recording& recording, Needs needs) {
  std::set<std::int32_t> devices;
  for (const model::DeviceTrace& trace : recording.traces)
    if (trace.event_count > 0) devices.insert(trace.device);
  if (needs == Needs::kHistory || !devices.empty()) return devices;
  for (const model::Segment& segment : recording.segments)
    devices.insert(segment.device);
  return devices;
}

Result<std::int32_t> choose_device(const model::Recording& recording,
                                   std::optional<std::int32_t> wanted,
                                   Needs needs) {
  std::set<std::int32_t> devices = devices_of(recording, needs);
  if (wanted && needs == Needs::kState) {
    for (const model::Segment& segment : recording.segments)
      devices.insert(segment.device);
  }
  if (wanted && devices.contains(*wanted)) return *wanted;
  if (wanted) {
    return failure(ErrorCode::kUsage,
                   fmt::format("device {} has no {}",
                               *wanted,
                               needs == Needs::kHistory ? "history" : "memory in the file"));
  }
  if (devices.empty() && needs == Needs::kState) return 0;
  if (devices.empty()) {
    return failure(ErrorCode::kContradictory,
                   "the snapshot has no history: torch.cuda.memory._record_memory_history() before "
                   "the job's work turns it on");
  }
  if (devices.size() > 1) {
    const std::int32_t last = *devices.rbegin();
    devices.erase(last);
    return failure(ErrorCode::kUsage,
                   fmt::format("devices {} and {} {}: --device N says which",
                               fmt::join(devices, ", "),
                               last,
                               needs == Needs::kHistory ? "have a history" : "are in the file"));
  }
  return *devices.begin();
}

}  // namespace

Result<std::unique_ptr<HistoryFile>> HistoryFile::open(const std::string& path,
                                                       std::optional<std::int32_t> device,
                                                       Needs needs) {
  Result<ingest::ByteSource> source = ingest::ByteSource::open(path);
  if (!source) return tl::unexpected<Error>(source.error());
  return read(std::move(*source), path, device, needs);
}

Result<std::unique_ptr<HistoryFile>> HistoryFile::read(ingest::ByteSource source,
                                                       const std::string& path,
                                                       std::optional<std::int32_t> device,
                                                       Needs needs) {
  Progress bar("reading " + report::printable(path));
  const auto progress = [&bar](std::uint64_t done, std::uint64_t total) { bar.show(done, total); };
  std::unique_ptr<HistoryFile> file(new HistoryFile(std::move(source)));
  const bool is_trace = trace::is_trace(std::as_bytes(file->source_.bytes()));
  const Result<void> read = is_trace ? file->read_trace(path, device, progress)
                                     : file->read_snapshot(device, needs, progress);
  if (read) return file;
  Error error = read.error();
  if (error.source.empty()) error.source = path;
  return tl::unexpected<Error>(std::move(error));
}

Result<void> HistoryFile::read_trace(const std::string& path,
                                     std::optional<std::int32_t> device,
                                     const ingest::ProgressFn& progress) {
  Result<TraceInput> input = TraceInput::open(path, source_);
  if (!input) return tl::unexpected<Error>(input.error());
  input_ = std::move(*input);
  auto history = model::TraceHistory::open(input_.bytes(), recording_, progress);
  if (!history) return tl::unexpected<Error>(history.error());
  if (input_.is_ring()) recording_.kind = "ring";
  recording_.input_bytes = source_.bytes().size();
  trace_ = history->get();
  history_ = std::move(*history);
  if (device && *device != history_->device()) {
    return failure(ErrorCode::kUsage,
                   fmt::format("the trace is of device {}, not {}", history_->device(), *device));
  }
  return {};
}

Result<void> HistoryFile::read_snapshot(std::optional<std::int32_t> device,
                                        Needs needs,
                                        const ingest::ProgressFn& progress) {
  auto recording =
      ingest::read_torch_snapshot(source_.bytes(), [&](std::uint64_t done, std::uint64_t total) {
        source_.release_until(done);
        progress(done, total);
      });
  if (!recording) return tl::unexpected<Error>(recording.error());
  recording_ = std::move(*recording);
  const Result<std::int32_t> chosen = choose_device(recording_, device, needs);
  if (!chosen) return tl::unexpected<Error>(chosen.error());
  rule_ = model::find_rounding_rule(recording_);
  auto timeline = std::make_unique<model::Timeline>(recording_, *chosen, rule_);
  analysis::add_file_signals(recording_, rule_, recording_.trust);
  analysis::add_trace_signals(*timeline, recording_.trust);
  timeline_ = timeline.get();
  history_ = std::move(timeline);
  return {};
}

Result<whatif::Program> HistoryFile::program() const {
  return trace_ != nullptr ? whatif::program_of_trace(*trace_, recording_)
                           : whatif::program_of_snapshot(recording_, *timeline_, rule_);
}

}  // namespace fragscope::cli
