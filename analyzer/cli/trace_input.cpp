// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/trace_input.hpp"

#include "trace/file/drain.hpp"
#include "trace/process/ring_directory.hpp"
#include "trace/ring/ring_reader.hpp"

#include <utility>

namespace fragscope::cli {

Result<TraceInput> TraceInput::open(const std::string& path, const ingest::ByteSource& source) {
  TraceInput input;
  input.file_ = std::as_bytes(source.bytes());
  const auto header = trace::read_header(input.file_);
  if (!header) return tl::unexpected(header.error());
  input.is_ring_ = header->form == trace::TraceForm::kRing;
  if (!input.is_ring_) return input;
  const bool is_writer_gone = trace::writer_state(path, *header) != trace::WriterState::kAlive;
  return trace::ring_as_file(input.file_, is_writer_gone).map([&](std::vector<std::byte> image) {
    input.image_ = std::move(image);
    return std::move(input);
  });
}

}  // namespace fragscope::cli
