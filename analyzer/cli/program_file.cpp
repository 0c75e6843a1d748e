// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/program_file.hpp"

#include "analyzer/cli/input/history_file.hpp"
#include "analyzer/ingest/byte_source.hpp"
#include "analyzer/whatif/program/program_of_log.hpp"
#include "analyzer/whatif/recorded/settle.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

namespace fragscope::cli {
namespace {

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

Result<ProgramFile> of_history(HistoryFile& file) {
  Result<whatif::Program> program = file.program();
  if (!program) return tl::unexpected<Error>(program.error());
  whatif::settle(*program);
  const std::int32_t device = file.device();
  return ProgramFile{std::move(*program), std::move(file).release_recording(), device};
}

}  // namespace

Result<ProgramFile> read_program(const std::string& path, std::optional<std::int32_t> device) {
  Result<ingest::ByteSource> source = ingest::ByteSource::open(path);
  if (!source) return tl::unexpected<Error>(source.error());
  const auto bytes = std::as_bytes(source->bytes());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto log = whatif::request_log(text)) {
    if (!device) return of_log(text, *log);
    return failure(ErrorCode::kUsage, "--device: a log of requests does not name devices");
  }
  const auto file = HistoryFile::read(std::move(*source), path, device, Needs::kHistory);
  if (file) return of_history(**file);
  Error error = file.error();
  const bool is_something_else = error.code == ErrorCode::kForeign && error.byte_offset == 0U;
  if (is_something_else) error.message += ", or the log of requests that RMM or STAlloc writes";
  return tl::unexpected<Error>(std::move(error));
}

std::vector<std::string> each_once(const std::vector<std::string>& texts) {
  std::vector<std::string> kept;
  for (const std::string& text : texts) {
    if (std::ranges::find(kept, text) == kept.end()) kept.push_back(text);
  }
  return kept;
}

}  // namespace fragscope::cli
