// SPDX-License-Identifier: Apache-2.0
// A recording by its path, with one device's history: for commands that look at how its memory
// went. Stays where it is, since its parts refer to each other.
#pragma once

#include "analyzer/cli/trace_input.hpp"
#include "analyzer/ingest/byte_source.hpp"
#include "analyzer/ingest/input.hpp"
#include "analyzer/model/history.hpp"
#include "analyzer/model/rounding_rule.hpp"
#include "analyzer/model/timeline.hpp"
#include "analyzer/model/trace/trace_history.hpp"
#include "analyzer/recording/recording.hpp"
#include "analyzer/whatif/program/program.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace fragscope::cli {

/// Whether a file will do that shows a state without how it came about.
enum class Needs : std::uint8_t { kHistory, kState };

class HistoryFile {
 public:
  /// With a progress bar, where that is a terminal. `device` is needed where several could be
  /// meant. An error does not name the file.
  [[nodiscard]] static Result<std::unique_ptr<HistoryFile>> open(const std::string& path,
                                                                 std::optional<std::int32_t> device,
                                                                 Needs needs);

  /// Of a source that was opened before; `path` is for the progress bar, and to find a ring again.
  [[nodiscard]] static Result<std::unique_ptr<HistoryFile>> read(ingest::ByteSource source,
                                                                 const std::string& path,
                                                                 std::optional<std::int32_t> device,
                                                                 Needs needs);

  /// With `trust` complete.
  [[nodiscard]] const model::Recording& recording() const { return recording_; }
  /// For whoever is done with everything else.
  [[nodiscard]] model::Recording release_recording() && { return std::move(recording_); }
  [[nodiscard]] const model::History& history() const { return *history_; }
  [[nodiscard]] std::int32_t device() const { return history_->device(); }
  /// Of a trace: what its header says; null otherwise.
  [[nodiscard]] const model::TraceHistory* trace() const { return trace_; }
  /// What the program asked for. Fails: the recording does not show it.
  [[nodiscard]] Result<whatif::Program> program() const;

 private:
  explicit HistoryFile(ingest::ByteSource source)
      : source_(std::move(source)) {}

  [[nodiscard]] Result<void> read_trace(const std::string& path,
                                        std::optional<std::int32_t> device,
                                        const ingest::ProgressFn& progress);
  [[nodiscard]] Result<void> read_snapshot(std::optional<std::int32_t> device,
                                           Needs needs,
                                           const ingest::ProgressFn& progress);

  ingest::ByteSource source_;
  TraceInput input_;
  model::Recording recording_;
  model::RoundingRule rule_ = model::RoundingRule::kUntested;
  std::unique_ptr<model::History> history_;
  const model::TraceHistory* trace_ = nullptr;
  const model::Timeline* timeline_ = nullptr;
};

}  // namespace fragscope::cli
