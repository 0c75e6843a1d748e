// SPDX-License-Identifier: Apache-2.0
// `explain`: a log becomes judged messages and start-up timelines. The result is plain data;
// `analyzer/report` prints it.
#pragma once

#include "analyzer/explain/judge.hpp"
#include "analyzer/explain/message/message.hpp"
#include "analyzer/ingest/input.hpp"
#include "analyzer/logtext/log_reader.hpp"
#include "analyzer/stages/timeline_builder.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::explain {

struct Report {
  Message message;
  Finding finding;
};

struct Explanation {
  std::vector<Report> reports;      ///< By line of first appearance.
  std::uint64_t dropped_count = 0;  ///< Distinct messages beyond the number that is kept.
  std::vector<stages::Timeline> timelines;
  std::uint64_t skipped_starts = 0;  ///< Starts of engines beyond the number that is kept.
  logtext::LogTotals totals;
};

/// Reads a log ("-" is standard input). A log without a message is no failure.
/// Cost: one pass at memory speed; memory bounded whatever the log holds.
[[nodiscard]] Result<Explanation> explain_log(const std::string& path,
                                              const ingest::ProgressFn& progress = {});

}  // namespace fragscope::explain
