// SPDX-License-Identifier: Apache-2.0
// `explain`: a log becomes judged messages and start-up timelines. The result is plain data;
// `analyzer/report` prints it.
#pragma once

#include "analyzer/explain/device_list.hpp"
#include "analyzer/explain/judge.hpp"
#include "analyzer/explain/message/message.hpp"
#include "analyzer/ingest/input.hpp"
#include "analyzer/logtext/log_reader.hpp"
#include "analyzer/stages/timeline_builder.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::explain {

struct Report {
  Message message;
  Finding finding;
  std::optional<DeviceBefore> before;  ///< Of its device, where a list given beside the log says.
};

struct Explanation {
  std::vector<Report> reports;      ///< By line of first appearance.
  std::uint64_t dropped_count = 0;  ///< Distinct messages beyond the number that is kept.
  std::vector<stages::Timeline> timelines;
  DeviceList devices;                ///< Of a listing by nvidia-smi -L within the log.
  std::uint64_t skipped_starts = 0;  ///< Starts of engines beyond the number that is kept.
  logtext::LogTotals totals;
};

/// Reads a log ("-" is standard input). A log without a message is no failure.
/// Cost: one pass at memory speed; memory bounded whatever the log holds.
[[nodiscard]] Result<Explanation> explain_log(const std::string& path,
                                              const ingest::ProgressFn& progress = {});
/// The same for a log in memory.
[[nodiscard]] Explanation explain_log_text(std::string_view log);

}  // namespace fragscope::explain
