// SPDX-License-Identifier: Apache-2.0
// Any bytes as a snapshot, all the way to the reports: nothing may crash, hang, overflow or execute
// anything. The same bytes are read as a log, too. What is asked beside the recorded failures
// follows from the bytes, so that an input means the same in every run.
#include "analyzer/analysis/analysis.hpp"
#include "analyzer/ingest/torch_snapshot.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/report/json_report.hpp"
#include "analyzer/report/terminal.hpp"
#include "analyzer/report/text_report.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using fragscope::analysis::Moment;
using fragscope::analysis::Options;
using fragscope::model::Recording;

std::uint64_t digest(std::span<const std::uint8_t> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::uint8_t byte : bytes)
    hash = (hash ^ byte) * 0x100000001b3ULL;
  return hash;
}

// Not an assert: it has to hold in every kind of build.
void must(bool condition) {
  if (!condition) std::abort();
}

void report_both(const Recording& recording, const Options& options, bool redact) {
  const auto analyzed = fragscope::analysis::analyze(recording, options);
  if (!analyzed) {
    must(!analyzed.error().message.empty());
    return;
  }
  const fragscope::report::FrameText frames(recording, redact);
  must(!text_report(*analyzed, frames, "input", fragscope::report::Paint(redact)).empty());
  const std::string json = json_report(*analyzed, frames, {"input", "0"});
  must(json.find('\n') == std::string::npos);
}

/// One question whose every part is taken from `seed`.
Options question_from(std::uint64_t seed, const Recording& recording) {
  Options options;
  const auto pick = [&seed](std::uint64_t count) {
    const std::uint64_t picked = seed % count;
    seed = seed / count * 0x9e3779b97f4a7c15ULL + count;
    return picked;
  };
  options.request_bytes = (pick(4095) + 1) << pick(48);
  const auto kind = static_cast<Moment::Kind>(pick(4));
  options.at = Moment{kind, {}};
  if (kind == Moment::Kind::kEvent) {
    options.at->number = static_cast<std::int64_t>(pick(recording.events.size() + 2));
  }
  if (!recording.traces.empty()) {
    options.device = recording.traces[pick(recording.traces.size())].device;
  }
  if (!recording.segments.empty()) {
    const auto& segment = recording.segments[pick(recording.segments.size())];
    options.stream = segment.stream;
    options.pool = recording.pools[fragscope::model::index_of(segment.pool)];
    if (pick(2) == 0) options.device = segment.device;
  }
  if (pick(2) == 0) options.device_free_bytes = pick(4096) << pick(50);
  if (pick(2) == 0) options.device_total_bytes = pick(4096) << pick(50);
  if (pick(2) == 0) options.limit_bytes = pick(4096) << pick(50);
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  const auto recording = fragscope::ingest::read_torch_snapshot(bytes);
  if (!recording) {
    must(!recording.error().message.empty());
    must(recording.error().message.find('\n') == std::string::npos);
    return 0;
  }
  const std::uint64_t seed = digest(bytes);
  report_both(*recording, Options{}, false);
  report_both(*recording, question_from(seed, *recording), true);
  report_both(*recording, question_from(seed * 31 + 7, *recording), false);
  return 0;
}
