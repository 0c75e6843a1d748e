// SPDX-License-Identifier: Apache-2.0
// Drains every ring that appears in a job's folder into a trace file, while the job runs. For
// `run`.
#pragma once

#include "trace/file/drain.hpp"
#include "trace/process/descriptor.hpp"
#include "trace/result.hpp"
#include "trace/ring/ring_file.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace fragscope::cli {

/// A ring and its file.
struct CollectedTrace {
  std::string ring;
  std::string path;  ///< Of the file; empty: there is none, see `reason`.
  trace::Header header;
  trace::ReadCounts counts;
  std::uint64_t bytes = 0;
  /// Why there is no file, or no more than a part of one. Empty: all is there.
  std::string reason;
};

class TraceCollector {
 public:
  /// Reads `folder`. A single trace becomes the file `output`, which must not be there unless
  /// `may_overwrite`; several become files beside it, each with its rank, device and process in the
  /// name. Fails if `output` cannot be written.
  [[nodiscard]] static Result<TraceCollector> begin(std::string folder,
                                                    std::string output,
                                                    bool may_overwrite);

  TraceCollector(TraceCollector&&) noexcept = default;
  TraceCollector& operator=(TraceCollector&&) noexcept = default;
  TraceCollector(const TraceCollector&) = delete;
  TraceCollector& operator=(const TraceCollector&) = delete;
  ~TraceCollector();

  /// Looks for new rings.
  void look();
  /// Takes what was recorded meanwhile; gives how many records.
  std::uint64_t pump();
  /// Nobody waits any longer: takes the rest, ends the files, and removes rings and folder, except
  /// those that somebody still writes or that could not be kept. Ordered by rank, device, process.
  [[nodiscard]] std::vector<CollectedTrace> finish();

 private:
  struct Source;

  TraceCollector(std::string folder, std::string output);

  void add(const std::string& ring);
  [[nodiscard]] std::string file_name(const trace::Header& header) const;
  void finish(Source& source);

  std::string folder_;
  std::string output_;
  std::set<std::string> known_;
  std::vector<std::unique_ptr<Source>> sources_;
};

}  // namespace fragscope::cli
