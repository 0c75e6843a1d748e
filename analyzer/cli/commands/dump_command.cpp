// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/cli/trace_input.hpp"
#include "analyzer/ingest/byte_source.hpp"
#include "analyzer/model/trace/heap/recorded_heap.hpp"
#include "analyzer/report/frame_text.hpp"
#include "trace/file/trace_reader.hpp"
#include "trace/format/header_text.hpp"
#include "trace/ring/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace fragscope::cli {
namespace {

using trace::Record;
using trace::RecordKind;

struct DumpArguments {
  std::string file;
  bool stacks = false;
  bool redact = false;
};

std::string_view name_of(RecordKind kind) {
  switch (kind) {
    case RecordKind::kSegmentAlloc:
      return "segment_alloc";
    case RecordKind::kSegmentFree:
      return "segment_free";
    case RecordKind::kSegmentMap:
      return "segment_map";
    case RecordKind::kSegmentUnmap:
      return "segment_unmap";
    case RecordKind::kAlloc:
      return "alloc";
    case RecordKind::kSplit:
      return "split";
    case RecordKind::kMerge:
      return "merge";
    case RecordKind::kFreeRequested:
      return "free_requested";
    case RecordKind::kFreeCompleted:
      return "free_completed";
    case RecordKind::kOutOfMemory:
      return "oom";
    case RecordKind::kCacheRelease:
      return "cache_release";
    case RecordKind::kRetry:
      return "retry";
    case RecordKind::kSettings:
      return "settings";
    case RecordKind::kLimit:
      return "limit";
    case RecordKind::kMark:
      return "mark";
    case RecordKind::kKeyframeBegin:
      return "keyframe_begin";
    case RecordKind::kKeyframeBlock:
      return "keyframe_block";
    case RecordKind::kKeyframeEnd:
      return "keyframe_end";
    case RecordKind::kSnapshot:
      return "snapshot";
    case RecordKind::kDeviceMemory:
      return "device_memory";
    case RecordKind::kRecordStream:
      return "record_stream";
    case RecordKind::kClock:
      return "clock";
    case RecordKind::kProcess:
      return "process";
    case RecordKind::kThisProcess:
      return "this_process";
    case RecordKind::kProcessesRefused:
      return "processes_refused";
    case RecordKind::kUnknownChanges:
      return "unknown_changes";
    case RecordKind::kNone:
      break;
  }
  return {};
}

/// As it may be shown on a terminal.
template <std::size_t kSize>
std::string shown_text(const std::array<char, kSize>& field) {
  return report::printable(trace::text_of(field));
}

/// One line for each record, with fields that keep their names and order.
class Dump {
 public:
  Dump(const trace::TraceReader& reader, const DumpArguments& arguments)
      : header_(reader.header())
      , table_(reader.table())
      , arguments_(arguments) {}

  void print_header(bool is_ring, const trace::TraceReader& reader) const {
    const auto shown = [this](const std::string& text) {
      return arguments_.redact && !text.empty() ? "(masked)" : text;
    };
    fmt::print("# fragscope trace {}.{} form={} state={} device={} pid={} records={}..{}\n",
               header_.version_major,
               header_.version_minor,
               is_ring ? "ring" : "file",
               state_name(),
               header_.device,
               header_.process.pid,
               reader.first_record(),
               reader.end_record());
    fmt::print("# device_name=\"{}\" device_total={} library=\"{}\" torch=\"{}\"\n",
               shown_text(header_.device_name),
               header_.device_total_bytes,
               shown_text(header_.library_version),
               shown_text(header_.torch_version));
    fmt::print("# conf=\"{}\" command=\"{}\" reason=\"{}\"\n",
               shown_text(header_.conf),
               shown(shown_text(header_.command)),
               shown_text(header_.reason));
    fmt::print("# dropped={} overwritten={} torn={} damaged={} table_refused={} failures={}\n",
               header_.dropped,
               header_.overwritten,
               header_.torn,
               header_.damaged,
               header_.table_refused,
               header_.failures);
    for (std::uint32_t id = 1; id <= table_.count(trace::TableKind::kFact); ++id) {
      const trace::TableFact fact = table_.fact(id);
      fmt::print("# fact {}=\"{}\"\n",
                 report::printable(table_.text(fact.name)),
                 report::printable(table_.text(fact.value)));
    }
    if (is_native()) {
      fmt::print("# of PyTorch's own allocator: sizes of blocks, splits and merges are derived\n");
    }
  }

  [[nodiscard]] bool is_native() const {
    return header_.source == trace::TraceSource::kPytorchNative;
  }

  void print(const Record& record) {
    line_.clear();
    const std::uint64_t unix_ns = trace::unix_ns_at(header_, record.ticks);
    auto out = std::back_inserter(line_);
    fmt::format_to(
        out, "{} {}.{:09} ", record.commit - 1, unix_ns / 1'000'000'000U, unix_ns % 1'000'000'000U);
    const std::string_view name = name_of(record.kind);
    if (name.empty()) {
      fmt::format_to(out, "kind_{}", static_cast<unsigned>(record.kind));
    } else {
      line_ += name;
    }
    add_fields(record);
    fmt::format_to(out, " thread={}", record.thread);
    const bool is_distance = is_native() && record.kind == RecordKind::kKeyframeBegin;
    if (is_distance) {
      fmt::format_to(out, " of_record={}", record.commit - 1 - record.stack);
    } else if (record.stack != 0) {
      add_stack(record.stack);
    }
    if (is_native() && (record.kind == RecordKind::kSplit || record.kind == RecordKind::kMerge)) {
      line_ += " derived";
    }
    line_ += '\n';
    std::fwrite(line_.data(), 1, line_.size(), stdout);
  }

 private:
  [[nodiscard]] std::string_view state_name() const {
    switch (header_.state) {
      case trace::TraceState::kStarting:
        return "starting";
      case trace::TraceState::kRecording:
        return "recording";
      case trace::TraceState::kEnded:
        return "ended";
      case trace::TraceState::kUnrecorded:
        return "unrecorded";
    }
    return "unknown";
  }

  void add_fields(const Record& record) {
    auto out = std::back_inserter(line_);
    switch (record.kind) {
      case RecordKind::kOutOfMemory:
        fmt::format_to(
            out, " size={} requested={} device_free={}", record.size, record.other, record.address);
        return add_home(record);
      case RecordKind::kCacheRelease:
        fmt::format_to(out, " bytes={} ranges={}", record.size, record.other);
        if (record.pool != 0) add_pool(record);
        return;
      case RecordKind::kRetry:
        fmt::format_to(out, " bytes={}", record.size);
        return add_home(record);
      case RecordKind::kSettings:
        fmt::format_to(out, " conf=\"{}\"", report::printable(table_.text(record.address)));
        if (record.other != 0) line_ += " earlier";
        return;
      case RecordKind::kLimit:
        line_ += record.size == ~std::uint64_t{0} ? " none" : fmt::format(" bytes={}", record.size);
        return;
      case RecordKind::kMark:
        return add_mark(record);
      case RecordKind::kKeyframeBegin:
        fmt::format_to(
            out, " number={} blocks={} held={}", record.address, record.size, record.other);
        return;
      case RecordKind::kKeyframeEnd:
        fmt::format_to(out, " number={} blocks={}", record.address, record.size);
        return;
      case RecordKind::kSnapshot:
        fmt::format_to(out, " active={}", record.size);
        return;
      case RecordKind::kDeviceMemory:
        fmt::format_to(
            out, " free={} total={} others={}", record.address, record.size, record.other);
        return;
      case RecordKind::kProcess:
      case RecordKind::kThisProcess:
        return add_process(record);
      case RecordKind::kProcessesRefused:
        fmt::format_to(out, " \"{}\"", report::printable(table_.text(record.address)));
        return;
      case RecordKind::kUnknownChanges:
        return;
      case RecordKind::kClock:
        fmt::format_to(out, " monotonic_ns={} unix_ns={}", record.address, record.size);
        return;
      default:
        add_block(record);
    }
  }

  void add_mark(const Record& record) {
    const std::string_view name = table_.text(record.address);
    fmt::format_to(std::back_inserter(line_),
                   " {} \"{}\"{}",
                   record.size == 1   ? "begin"
                   : record.size == 2 ? "end"
                                      : "point",
                   arguments_.redact && !name.empty() ? "(masked)" : report::printable(name),
                   record.other == 1 ? " annotation" : "");
  }

  void add_process(const Record& record) {
    const bool is_known = record.size != ~std::uint64_t{0};
    const std::string_view name = table_.text(record.other);
    fmt::format_to(std::back_inserter(line_),
                   " pid={} bytes={} name=\"{}\"",
                   record.address,
                   is_known ? std::to_string(record.size) : "unknown",
                   arguments_.redact && !name.empty() ? "(masked)" : report::printable(name));
  }

  void add_block(const Record& record) {
    auto out = std::back_inserter(line_);
    fmt::format_to(out, " address={:#x}", record.address);
    if (is_native() && record.size == 0) {
      line_ += " size=unknown";
    } else {
      fmt::format_to(out, " size={}", record.size);
    }
    switch (record.kind) {
      case RecordKind::kSplit:
        fmt::format_to(out, " rest={}", record.other);
        break;
      case RecordKind::kMerge:
        fmt::format_to(out, " absorbed={:#x}", record.other);
        break;
      case RecordKind::kSegmentMap:
      case RecordKind::kSegmentUnmap:
        fmt::format_to(out, " base={:#x}", record.other);
        add_driver_time(record);
        break;
      case RecordKind::kRecordStream:
        fmt::format_to(
            out, " other_stream={:#x}", table_.stream(static_cast<std::uint32_t>(record.other)));
        break;
      case RecordKind::kSegmentAlloc:
      case RecordKind::kSegmentFree:
        add_driver_time(record);
        break;
      default:
        fmt::format_to(out, " requested={}", record.other);
    }
    add_home(record);
  }

  void add_driver_time(const Record& record) {
    if (record.detail == 0) return;  // It was not measured.
    fmt::format_to(std::back_inserter(line_), " driver_ns={}", record.detail);
  }

  void add_pool(const Record& record) {
    if (record.pool == trace::kUnknownPool) {
      line_ += " pool=unknown";
      return;
    }
    const trace::TablePool pool = table_.pool(record.pool);
    fmt::format_to(std::back_inserter(line_), " pool={},{}", pool.first, pool.second);
  }

  void add_home(const Record& record) {
    auto out = std::back_inserter(line_);
    if (record.stream == trace::kUnknownStream) {
      line_ += " stream=unknown";
    } else {
      fmt::format_to(out, " stream={:#x}", table_.stream(record.stream));
    }
    add_pool(record);
    line_ += (record.flags & trace::kFlagLarge) != 0 ? " large" : " small";
    constexpr std::pair<std::uint8_t, std::string_view> kNames[] = {
        {trace::kFlagExpandable, " expandable"},
        {trace::kFlagAllocated, " allocated"},
        {trace::kFlagPending, " pending"},
        {trace::kFlagUnmapped, " unmapped"},
        {trace::kFlagCapturing, " capturing"},
        {trace::kFlagFirst, " first"}};
    for (const auto& [flag, name] : kNames) {
      if ((record.flags & flag) != 0) line_ += name;
    }
  }

  void add_stack(std::uint32_t id) {
    auto out = std::back_inserter(line_);
    fmt::format_to(out, " stack={}", id);
    if (!arguments_.stacks) return;
    const auto text = [this](std::uint32_t of) {
      return arguments_.redact ? "(masked)" : report::printable(table_.text(of));
    };
    for (const std::uint32_t frame_id : table_.stack(id)) {
      const trace::TableFrame frame = table_.frame(frame_id);
      fmt::format_to(out, " | {}:{} {}", text(frame.file), frame.line, text(frame.name));
    }
  }

  const trace::Header& header_;
  const trace::Table& table_;
  const DumpArguments& arguments_;
  std::string line_;
};

/// Says what a trace of PyTorch's own allocator leaves out.
struct Completion {
  Completion(trace::TraceReader again, const trace::TraceReader& reader)
      : keyframes(std::move(again))
      , heap(reader.header(), reader.table(), &keyframes) {}

  model::EarlierKeyframes keyframes;
  model::RecordedHeap heap;
};

/// Null for a trace that says everything itself.
Result<std::unique_ptr<Completion>> completion_of(std::span<const std::byte> bytes,
                                                  const trace::TraceReader& reader,
                                                  Dump& dump) {
  if (!dump.is_native()) return nullptr;
  Result<trace::TraceReader> again = trace::TraceReader::open(bytes);
  if (!again) return tl::unexpected(again.error());
  auto completion = std::make_unique<Completion>(std::move(*again), reader);
  completion->heap.listen([&dump](const Record& record) { dump.print(record); });
  if (reader.first_record() == 0 && reader.header().beginning == trace::TraceBeginning::kEmpty) {
    completion->heap.begin_empty();
  }
  return completion;
}

Result<void> dump_file(const DumpArguments& arguments) {
  const Result<ingest::ByteSource> source = ingest::ByteSource::open(arguments.file);
  if (!source) return tl::unexpected(source.error());
  if (!trace::is_trace(std::as_bytes(source->bytes()))) {
    return failure(ErrorCode::kForeign, "expected a trace or a ring of fragscope");
  }
  const Result<TraceInput> input = TraceInput::open(arguments.file, *source);
  if (!input) return tl::unexpected(input.error());
  Result<trace::TraceReader> reader = trace::TraceReader::open(input->bytes());
  if (!reader) return tl::unexpected(reader.error());

  Dump dump(*reader, arguments);
  dump.print_header(input->is_ring(), *reader);
  Result<std::unique_ptr<Completion>> completion = completion_of(input->bytes(), *reader, dump);
  if (!completion) return tl::unexpected(completion.error());
  const auto show = [&](const Record& record) {
    *completion ? (*completion)->heap.apply(record) : dump.print(record);
  };
  std::uint64_t next = reader->first_record();
  for (std::size_t i = 0; i < reader->chunk_count(); ++i) {
    const std::uint64_t first = reader->first_of_chunk(i);
    if (first > next) {
      fmt::print("# records {} to {} are missing\n", next, first - 1);
      if (*completion) (*completion)->heap.lose();
    }
    const auto records = reader->records(i);
    if (!records) {
      fmt::print("# left out: {}\n", records.error().describe());
      continue;
    }
    std::ranges::for_each(*records, show);
    next = first + records->size();
  }
  if (next < reader->end_record()) {
    fmt::print("# records {} to {} are missing\n", next, reader->end_record() - 1);
  }
  if (reader->damage_count() > 0) {
    fmt::print("# damaged: {} parts are left out, the first is {}\n",
               reader->damage_count(),
               reader->first_damage());
  }
  if (!reader->is_complete()) {
    fmt::print("# cut short: {} bytes behind the last whole part are left out\n",
               reader->cut_bytes());
  }
  return {};
}

int run_dump(const DumpArguments& arguments) {
  const Result<void> done = dump_file(arguments);
  if (!done) {
    std::fflush(stdout);
    Error error = done.error();
    error.source = arguments.file;
    return complain(error);
  }
  return printed(kDone);
}

}  // namespace

void add_dump_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<DumpArguments>();
  CLI::App* command = app.add_subcommand(
      "dump", "Print every record of a trace or ring, one a line (see docs/trace_format.md)");
  command->add_option("FILE", arguments->file, "Trace or ring; - is standard input")->required();
  command->add_flag("--stacks", arguments->stacks, "Show the frames of call stacks");
  command->add_flag(
      "--redact", arguments->redact, "Mask the command line, frames and programs of processes");
  command->callback([arguments, &run] { run = [arguments] { return run_dump(*arguments); }; });
}

}  // namespace fragscope::cli
