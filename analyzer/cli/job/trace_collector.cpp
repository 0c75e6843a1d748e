// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/job/trace_collector.hpp"

#include "analyzer/cli/output.hpp"
#include "trace/format/header_text.hpp"
#include "trace/process/ring_directory.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

namespace fragscope::cli {
namespace {

namespace fs = std::filesystem;

/// Never shortens what is there: somebody may have it mapped.
Result<Descriptor> make_file(const std::string& path, bool may_overwrite) {
  if (may_overwrite) ::unlink(path.c_str());
  Descriptor file = open_file(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
  if (file.number() >= 0) return file;
  if (errno != EEXIST) return tl::unexpected(system_error(path, "cannot be made"));
  auto there = failure(ErrorCode::kUsage, "is there already (--force overwrites it)");
  there.value().source = path;
  return there;
}

}  // namespace

/// One ring. Stays where it is, since the drain refers to it.
struct TraceCollector::Source {
  CollectedTrace trace;
  std::optional<trace::RingFile> ring;
  Descriptor file{-1};
  std::optional<trace::Drain> drain;

  /// What was written stays, and the ring, too.
  void give_up(const Error& error) {
    trace.reason = error.describe();
    drain.reset();
  }
};

TraceCollector::TraceCollector(std::string folder, std::string output)
    : folder_(std::move(folder))
    , output_(std::move(output)) {}

TraceCollector::~TraceCollector() = default;

Result<TraceCollector> TraceCollector::begin(std::string folder,
                                             std::string output,
                                             bool may_overwrite) {
  // Made now, so that a job of hours does not end without a place for its trace.
  auto placeholder = make_file(output, may_overwrite);
  if (!placeholder) return tl::unexpected(placeholder.error());
  return TraceCollector(std::move(folder), std::move(output));
}

void TraceCollector::look() {
  const auto rings = trace::list_rings(folder_);
  if (!rings) return;
  for (const trace::RingEntry& ring : *rings) {
    if (ring.header && known_.insert(ring.path).second) add(ring.path);
  }
}

void TraceCollector::add(const std::string& path) {
  auto ring = trace::RingFile::open(path);
  if (!ring) return;
  auto source = std::make_unique<Source>();
  source->trace.ring = path;
  source->ring = std::move(*ring);
  const auto header = trace::read_header(source->ring->bytes());
  if (!header) return;
  source->trace.header = *header;
  sources_.push_back(std::move(source));
  Source& kept = *sources_.back();
  if (header->state == trace::TraceState::kUnrecorded && header->written == 0) {
    kept.trace.reason = std::string(trace::text_of(header->reason));
    return;
  }
  kept.trace.path = file_name(*header);
  // Nobody else makes files of such a name; one that is there is left of a process with this pid.
  auto file = make_file(kept.trace.path, true);
  if (!file) return kept.give_up(file.error());
  kept.file = std::move(*file);
  const auto sink = [&kept](std::span<const std::byte> bytes) {
    return write_all(kept.file.number(), kept.trace.path, bytes);
  };
  auto drain = trace::Drain::begin(kept.ring->bytes(), trace::ChunkCodec::kZstd, sink);
  if (!drain) return kept.give_up(drain.error());
  kept.drain.emplace(std::move(*drain));
}

std::string TraceCollector::file_name(const trace::Header& header) const {
  const fs::path output(output_);
  const std::string rank =
      header.process.rank == 0 ? "" : fmt::format(".rank{}", header.process.rank - 1);
  const std::string name = fmt::format("{}{}.gpu{}.pid{}{}",
                                       output.stem().string(),
                                       rank,
                                       header.device,
                                       header.process.pid,
                                       output.extension().string());
  return (output.parent_path() / name).string();
}

std::uint64_t TraceCollector::pump() {
  std::uint64_t records = 0;
  for (const auto& source : sources_) {
    if (!source->drain) continue;
    const auto taken = source->drain->pump();
    if (taken) {
      records += *taken;
    } else {
      source->give_up(taken.error());
    }
  }
  return records;
}

void TraceCollector::finish(Source& source) {
  const bool is_gone =
      trace::writer_state(source.trace.ring, source.trace.header) != trace::WriterState::kAlive;
  if (source.drain) {
    if (const auto ended = source.drain->finish(is_gone); !ended) {
      source.give_up(ended.error());
    } else {
      source.trace.header = source.drain->header();
      source.trace.counts = source.drain->counts();
      source.trace.bytes = source.drain->written_bytes();
      source.drain.reset();
    }
  }
  // A trace that could not be kept stays where it is.
  const bool is_kept = !source.trace.path.empty() && source.trace.reason.empty();
  const bool is_empty = source.trace.path.empty();
  if (is_gone && (is_kept || is_empty)) ::unlink(source.trace.ring.c_str());
}

std::vector<CollectedTrace> TraceCollector::finish() {
  look();
  std::vector<CollectedTrace> traces;
  for (const auto& source : sources_) {
    finish(*source);
    traces.push_back(std::move(source->trace));
  }
  sources_.clear();
  // Only if nothing is left in it.
  ::rmdir(folder_.c_str());
  std::ranges::sort(traces, {}, [](const CollectedTrace& trace) {
    return std::tuple(
        trace.header.process.rank, trace.header.device, trace.header.process.pid, trace.ring);
  });

  const auto has_file = [](const CollectedTrace& trace) { return !trace.path.empty(); };
  if (std::ranges::count_if(traces, has_file) == 1) {
    CollectedTrace& only = *std::ranges::find_if(traces, has_file);
    std::error_code error;
    fs::rename(only.path, output_, error);
    if (!error) only.path = output_;
  } else {
    ::unlink(output_.c_str());  // The place was only held.
  }
  return traces;
}

}  // namespace fragscope::cli
