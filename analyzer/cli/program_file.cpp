// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/program_file.hpp"

#include "analyzer/cli/progress.hpp"
#include "analyzer/cli/trace_input.hpp"
#include "analyzer/ingest/byte_source.hpp"
#include "analyzer/ingest/torch_snapshot.hpp"
#include "analyzer/model/rounding_rule.hpp"
#include "analyzer/model/timeline.hpp"
#include "analyzer/model/trace/trace_history.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/whatif/program/program_of_log.hpp"
#include "analyzer/whatif/program/program_of_snapshot.hpp"
#include "analyzer/whatif/program/program_of_trace.hpp"
#include "analyzer/whatif/recorded/settle.hpp"
#include "trace/file/trace_reader.hpp"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <utility>

namespace fragscope::cli {
namespace {

/// The one with a history, or the one that was asked for.
Result<std::int32_t> choose_device(const model::Recording& recording,
                                   std::optional<std::int32_t> wanted) {
  std::optional<std::int32_t> found;
  for (const model::DeviceTrace& trace : recording.traces) {
    if (wanted ? trace.device != *wanted : trace.event_count == 0) continue;
    if (found) {
      return failure(
          ErrorCode::kUsage,
          fmt::format(
              "devices {} and {} have a history: --device N says which", *found, trace.device));
    }
    found = trace.device;
  }
  if (found) return *found;
  if (wanted) {
    return failure(ErrorCode::kUsage, fmt::format("device {} has no history", *wanted));
  }
  return recording.traces.empty() ? 0 : recording.traces.front().device;
}

Result<ProgramFile> of_snapshot(ingest::ByteSource source,
                                const ingest::ProgressFn& progress,
                                std::optional<std::int32_t> device) {
  auto recording =
      ingest::read_torch_snapshot(source.bytes(), [&](std::uint64_t done, std::uint64_t total) {
        source.release_until(done);
        progress(done, total);
      });
  if (!recording) return tl::unexpected<Error>(recording.error());
  const Result<std::int32_t> chosen = choose_device(*recording, device);
  if (!chosen) return tl::unexpected<Error>(chosen.error());
  const model::RoundingRule rule = model::find_rounding_rule(*recording);
  const model::Timeline timeline(*recording, *chosen, rule);
  Result<whatif::Program> program = whatif::program_of_snapshot(*recording, timeline, rule);
  if (!program) return tl::unexpected<Error>(program.error());
  return ProgramFile{std::move(*program), std::move(*recording), *chosen};
}

Result<ProgramFile> of_log(std::string_view text, whatif::RequestLog log) {
  Result<whatif::Program> program = whatif::program_of_log(text, log);
  if (!program) return tl::unexpected<Error>(program.error());
  ProgramFile made;
  made.program = std::move(*program);
  made.recording.kind = to_string(log);
  made.recording.writer = log == whatif::RequestLog::kRmm ? "RMM" : "STAlloc";
  if (!made.program.ops.empty()) made.recording.event_count = made.program.ops.back().event + 1;
  return made;
}

Result<ProgramFile> of_trace(const std::string& path,
                             const ingest::ByteSource& source,
                             const ingest::ProgressFn& progress,
                             std::optional<std::int32_t> device) {
  const Result<TraceInput> input = TraceInput::open(path, source);
  if (!input) return tl::unexpected<Error>(input.error());
  ProgramFile made;
  const auto history = model::TraceHistory::open(input->bytes(), made.recording, progress);
  if (!history) return tl::unexpected<Error>(history.error());
  made.device = (*history)->device();
  if (device && *device != made.device) {
    return failure(ErrorCode::kUsage,
                   fmt::format("the trace is of device {}, not {}", made.device, *device));
  }
  Result<whatif::Program> program = whatif::program_of_trace(**history, made.recording);
  if (!program) return tl::unexpected<Error>(program.error());
  made.program = std::move(*program);
  if (input->is_ring()) made.recording.kind = "ring";
  return made;
}

}  // namespace

Result<ProgramFile> read_program(const std::string& path, std::optional<std::int32_t> device) {
  Result<ingest::ByteSource> source = ingest::ByteSource::open(path);
  if (!source) return tl::unexpected<Error>(source.error());
  Progress bar("reading " + report::printable(path));
  const auto progress = [&bar](std::uint64_t done, std::uint64_t total) { bar.show(done, total); };
  const auto bytes = std::as_bytes(source->bytes());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto log = whatif::request_log(text)) return of_log(text, *log);
  Result<ProgramFile> file = trace::is_trace(bytes)
                                 ? of_trace(path, *source, progress, device)
                                 : of_snapshot(std::move(*source), progress, device);
  if (file) whatif::settle(file->program);
  return file;
}

}  // namespace fragscope::cli
