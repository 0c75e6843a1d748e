// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/analyzed_file.hpp"

#include "analyzer/cli/progress.hpp"
#include "analyzer/cli/trace_input.hpp"
#include "analyzer/ingest/byte_source.hpp"
#include "analyzer/ingest/torch_snapshot.hpp"
#include "analyzer/model/trace/trace_history.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/whatif/program/program_of_trace.hpp"
#include "trace/file/trace_reader.hpp"

#include <future>
#include <utility>

namespace fragscope::cli {
namespace {

Result<Analyzed> analyze_snapshot(ingest::ByteSource source,
                                  const ingest::ProgressFn& progress,
                                  const analysis::Options& options) {
  auto recording =
      ingest::read_torch_snapshot(source.bytes(), [&](std::uint64_t done, std::uint64_t total) {
        source.release_until(done);
        progress(done, total);
      });
  if (!recording) return tl::unexpected<Error>(recording.error());
  auto analyzed = analysis::analyze(*recording, options);
  if (!analyzed) return tl::unexpected<Error>(analyzed.error());
  return Analyzed{std::move(*recording), std::move(*analyzed)};
}

Result<Analyzed> analyze_trace(const std::string& path,
                               ingest::ByteSource source,
                               const ingest::ProgressFn& progress,
                               const analysis::Options& options) {
  const Result<TraceInput> input = TraceInput::open(path, source);
  if (!input) return tl::unexpected<Error>(input.error());
  Analyzed made;
  auto history = model::TraceHistory::open(
      input->bytes(), made.recording, [&](std::uint64_t done, std::uint64_t total) {
        if (!input->is_ring()) source.release_until(done);
        progress(done, total);
      });
  if (!history) return tl::unexpected<Error>(history.error());
  if (input->is_ring()) made.recording.kind = "ring";
  made.recording.input_bytes = source.bytes().size();
  std::future<whatif::Proof> proof = whatif::prove_beside(
      (*history)->device(),
      whatif::program_of_trace(**history, made.recording, whatif::kMostProven));
  auto analyzed = analysis::analyze(made.recording, analysis::Histories{history->get()}, options);
  if (!analyzed) return tl::unexpected<Error>(analyzed.error());
  made.analysis = std::move(*analyzed);
  made.analysis.proofs.push_back(proof.get());
  return made;
}

}  // namespace

Result<Analyzed> analyze_path(const std::string& path, const analysis::Options& options) {
  Result<ingest::ByteSource> source = ingest::ByteSource::open(path);
  if (!source) return tl::unexpected<Error>(source.error());
  Progress bar("reading " + report::printable(path));
  const auto progress = [&bar](std::uint64_t done, std::uint64_t total) { bar.show(done, total); };
  return trace::is_trace(std::as_bytes(source->bytes()))
             ? analyze_trace(path, std::move(*source), progress, options)
             : analyze_snapshot(std::move(*source), progress, options);
}

}  // namespace fragscope::cli
