// SPDX-License-Identifier: Apache-2.0
// Any bytes as a trace file: nothing may crash or hang, and every heap that comes out of it has
// blocks that tile their segments and sums that agree. An input that begins with `S` is not the
// file itself: it chooses records from few addresses and sizes, so that most of them fit the heap,
// and the sums that the heap keeps are compared with its blocks.
#include "analyzer/analysis/analysis.hpp"
#include "analyzer/analysis/timeline_analysis.hpp"
#include "analyzer/model/trace/trace_history.hpp"
#include "analyzer/report/json_report.hpp"
#include "analyzer/report/servability/timeline_report.hpp"
#include "analyzer/servability/heap_offer.hpp"
#include "analyzer/whatif/program/program_of_trace.hpp"
#include "analyzer/whatif/recorded/proof.hpp"
#include "tests/support/trace_builder.hpp"
#include "trace/file/trace_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace {

using fragscope::model::BlockState;
using fragscope::model::EventIndex;
using fragscope::model::HeapBlock;
using fragscope::model::HeapSegment;
using fragscope::model::HeapState;
using fragscope::model::Recording;
using fragscope::model::TraceHeap;
using fragscope::model::TraceHistory;
using fragscope::model::TraceLevels;
using fragscope::model::TraceNames;
using fragscope::test::Bytes;
using fragscope::test::TableBuilder;
using fragscope::test::TraceBuilder;
using fragscope::trace::ChunkCodec;
using fragscope::trace::Record;
using fragscope::trace::RecordKind;
using fragscope::trace::TraceReader;

// Not an assert: it has to hold in every kind of build.
void must(bool condition) {
  if (!condition) std::abort();
}

/// Blocks tile their segments, segments do not overlap; gives the sums over the blocks.
TraceLevels sums_of(const HeapState& state) {
  TraceLevels sums;
  std::uint64_t end = 0;
  std::size_t next_block = 0;
  for (const HeapSegment& segment : state.segments) {
    must(segment.address >= end && segment.block_count > 0 && segment.first_block == next_block);
    end = segment.address;
    for (const HeapBlock& block : state.blocks_of(segment)) {
      must(block.address == end && block.size_bytes > 0 &&
           block.requested_bytes <= block.size_bytes);
      end += block.size_bytes;
      const bool is_used = block.state != BlockState::kFree;
      const bool is_whole = block.size_bytes == segment.size_bytes;
      sums.reserved += block.size_bytes;
      sums.allocated += block.state == BlockState::kLive ? block.size_bytes : 0;
      sums.active += is_used ? block.size_bytes : 0;
      sums.requested += is_used ? block.requested_bytes : 0;
      const bool is_split = !is_used && !is_whole && !segment.home.expandable;
      sums.inactive_split += is_split ? block.size_bytes : 0;
    }
    must(end == segment.address + segment.size_bytes);
    next_block += segment.block_count;
  }
  must(next_block == state.blocks.size() && state.unplaced_count == 0);
  return sums;
}

void check_state(const HeapState& state, const Recording& recording) {
  const TraceLevels sums = sums_of(state);
  const auto summary = fragscope::model::summarize(state, recording.settings.rules);
  must(summary.reserved_bytes == sums.reserved && summary.blocks == state.blocks.size());
  must(summary.allocated_bytes == fragscope::model::exactly(sums.allocated));
  must(summary.active_bytes == fragscope::model::exactly(sums.active));
  must(summary.requested_active_bytes == sums.requested);
  must(summary.free_bytes == fragscope::model::exactly(sums.reserved - sums.active));
}

void read_chunks(std::span<const std::byte> bytes) {
  auto reader = TraceReader::open(bytes);
  if (!reader) {
    must(!reader.error().message.empty());
    return;
  }
  std::uint64_t next = 0;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < reader->chunk_count(); ++i) {
    must(reader->first_of_chunk(i) >= next);
    next = reader->first_of_chunk(i);
    must(reader->chunk_of(next) == i && reader->end_of_chunk(i) <= bytes.size());
    const auto records = reader->records(i);
    if (!records) continue;
    for (const Record& record : *records)
      must(record.commit == fragscope::trace::commit_word(next++));
    count += records->size();
  }
  must(count <= reader->record_count() && next <= reader->end_record());
}

/// Follows the free runs to the end.
class RunsWalk final : public fragscope::model::CourseListener {
 public:
  explicit RunsWalk(const Recording& recording)
      : offer_(recording.settings.rules) {}

  void begin(EventIndex /*event*/,
             const fragscope::model::CourseLevels& levels,
             const fragscope::model::StateSource& state) override {
    offer_.begin(state(), levels);
    is_known_ = true;
  }
  void step(const fragscope::model::CourseStep& step,
            const fragscope::model::CourseLevels& levels) override {
    offer_.step(step, levels);
  }
  void mark(const fragscope::model::CourseMark& /*mark*/) override {}
  void lose(EventIndex /*event*/, bool /*marks_are_missing*/) override { is_known_ = false; }

  [[nodiscard]] bool is_known() const { return is_known_; }
  [[nodiscard]] std::uint64_t free_bytes() {
    std::uint64_t bytes = 0;
    for (const auto& [home, runs] : offer_.runs().homes())
      bytes += runs.free_bytes();
    return bytes;
  }

 private:
  fragscope::servability::HeapOffer offer_;
  bool is_known_ = false;
};

/// What the walk over runs ends with is what the heap ends with, and a timeline can be shown.
void check_timeline(const TraceHistory& history, const Recording& recording) {
  RunsWalk walk(recording);
  history.walk(walk);
  const EventIndex end = history.end_event();
  if (walk.is_known() && history.is_known_before(end)) {
    history.visit_states_until(std::vector{end}, [&](EventIndex, const HeapState& state) {
      std::uint64_t bytes = 0;
      for (const auto& block : state.blocks)
        bytes += block.state == fragscope::model::BlockState::kFree ? block.size_bytes : 0;
      must(walk.free_bytes() == bytes);
      return true;
    });
  }
  constexpr std::size_t kColumns = 16;
  fragscope::analysis::TimelineOptions wanted;
  wanted.column_count = kColumns;
  const auto made = fragscope::analysis::analyze_timeline(recording, history, {}, wanted);
  if (!made) return;
  must(made->timeline.column_count <= kColumns);
  const fragscope::report::FrameText frames(recording, false);
  const fragscope::report::CourseInput input{"input", recording, history.device()};
  const fragscope::report::Paint paint(false);
  must(!fragscope::report::timeline_text(*made, input, frames, paint).empty());
  must(!fragscope::report::timeline_json(*made, input, frames, "0").empty());
}

void analyze(std::span<const std::byte> bytes) {
  Recording recording;
  auto opened = TraceHistory::open(bytes, recording);
  if (!opened) {
    must(!opened.error().message.empty());
    return;
  }
  const TraceHistory& history = **opened;
  const EventIndex first = history.first_event();
  const EventIndex end = history.end_event();
  std::set<EventIndex> targets{first, first + 1, first + (end - first) / 2, end};
  targets.insert(history.peak().event + 1);
  std::erase_if(targets, [&](EventIndex event) {
    return event < first || event > end || !history.is_known_before(event);
  });
  const std::vector<EventIndex> sorted(targets.begin(), targets.end());
  std::size_t visited = 0;
  history.visit_states_until(sorted, [&](EventIndex event, const HeapState& state) {
    must(event == sorted[visited++]);
    check_state(state, recording);
    if (event == history.peak().event + 1) {
      must(sums_of(state).allocated == history.peak().allocated_bytes);
    }
    return true;
  });
  must(visited == sorted.size());
  check_state(fragscope::model::end_state(recording, history.device()), recording);

  const fragscope::whatif::Proof proof = fragscope::whatif::prove(
      history.device(), fragscope::whatif::program_of_trace(history, recording));
  must(proof.found.agreed <= proof.op_count);

  check_timeline(history, recording);
  const auto analyzed =
      fragscope::analysis::analyze(recording, fragscope::analysis::Histories{opened->get()}, {});
  if (!analyzed) return;
  const fragscope::report::FrameText frames(recording, false);
  must(!fragscope::report::json_report(*analyzed, frames, {"input", "0"}).empty());
}

/// Takes bytes from the front of the input; zeros behind its end.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes)
      : bytes_(bytes) {}
  [[nodiscard]] bool is_empty() const { return bytes_.empty(); }
  std::uint8_t take() {
    if (bytes_.empty()) return 0;
    const std::uint8_t value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// Makes records that often fit each other: it remembers the places that records named.
class Program {
 public:
  explicit Program(Input input)
      : input_(input) {}

  /// Numbers follow each other, apart from gaps.
  std::vector<Record> run() {
    std::vector<Record> records;
    std::uint64_t number = input_.take() % 4 == 0 ? 5 : 0;
    while (!input_.is_empty() && records.size() < kMostRecords) {
      Record& record = records.emplace_back(next());
      const std::uint8_t rare = input_.take();
      if (rare == 255) number += 3;
      record.device = rare == 254 ? 1 : 0;
      record.commit = fragscope::trace::commit_word(number++);
      record.ticks = number * 1000;
    }
    return records;
  }

 private:
  static constexpr std::size_t kMostRecords = 4096;
  static constexpr std::uint64_t kBase = 0x200000000000;
  struct Range {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
  };

  Range range() {
    const std::uint8_t choice = input_.take();
    if (choice < 192 && !known_.empty()) return known_[choice % known_.size()];
    const std::uint64_t address = kBase + std::uint64_t{input_.take()} * 512;
    return {choice == 255 ? ~address : address, std::uint64_t{input_.take()} * 512};
  }

  Record next() {
    Record record;
    const std::uint8_t kind = input_.take();
    record.kind = static_cast<RecordKind>(kind % 24);
    const Range place = range();
    record.address = place.address;
    record.size = place.size;
    const std::uint8_t other = input_.take();
    record.other = other;
    record.flags = input_.take();
    record.stream = other % 3;
    record.pool = kind >= 128 ? 1 : 0;
    record.stack = other % 2;
    add_other(record, other);
    return record;
  }

  /// What only some kinds need, so that it fits.
  void add_other(Record& record, std::uint8_t other) {
    const Range place{record.address, record.size};
    switch (record.kind) {
      case RecordKind::kSegmentMap:
      case RecordKind::kSegmentUnmap:
        record.other = other < 128 ? kBase : record.address - std::uint64_t{other} % 4 * 512;
        known_.push_back(place);
        break;
      case RecordKind::kSegmentAlloc:
      case RecordKind::kKeyframeBlock:
        known_.push_back(place);
        break;
      case RecordKind::kSplit:
        record.size = std::min<std::uint64_t>(std::uint64_t{other} * 512, place.size);
        record.other = place.size - record.size;
        known_.push_back({place.address, record.size});
        known_.push_back({place.address + record.size, record.other});
        break;
      case RecordKind::kMerge: {
        const Range behind = range();
        record.size = place.size + behind.size;
        record.other = other % 2 == 0 ? behind.address : record.address;
        known_.push_back({place.address, record.size});
        break;
      }
      case RecordKind::kKeyframeBegin:
        record.address = 1;
        record.size = other % 8;
        break;
      case RecordKind::kKeyframeEnd:
        record.address = other == 255 ? 0 : 1;
        break;
      case RecordKind::kSettings:
        record.address = other % 3;
        break;
      case RecordKind::kAlloc:
        if (record.flags >= 128) record.other *= 300;
        break;
      default:
        break;
    }
  }

  Input input_;
  std::vector<Range> known_;
};

/// The heap's own sums against its blocks, at some moments.
void walk(std::span<const Record> records) {
  Recording recording;
  const TraceNames names({}, recording);
  TraceHeap heap;
  if (records.front().commit == 1) heap.begin_empty();
  std::uint64_t next = records.front().commit;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].commit != next) heap.lose();
    next = records[i].commit + 1;
    const std::uint64_t before = heap.contradictions();
    heap.apply(records[i]);
    must(heap.contradictions() - before <= 2);
    if (i % 16 != 0 && i + 1 != records.size()) continue;
    const TraceLevels sums = sums_of(heap.state(names));
    const TraceLevels& levels = heap.levels();
    must(levels.reserved == sums.reserved && levels.allocated == sums.allocated);
    must(levels.active == sums.active && levels.requested == sums.requested);
    must(levels.inactive_split == sums.inactive_split);
  }
}

void run_structured(Input input) {
  const std::uint8_t form = input.take();
  const std::vector<Record> records = Program(input).run();
  if (records.empty()) return;
  walk(records);
  TableBuilder table;
  table.text("expandable_segments:True");
  const std::uint32_t frames[] = {table.frame({1, 1, 4})};
  table.stack(frames);
  table.stream(7);
  table.pool({0, 3});
  fragscope::trace::Header header = fragscope::test::trace_header();
  // The same records, read as what PyTorch tells of its own allocator.
  if ((form & 8) != 0) header.source = fragscope::trace::TraceSource::kPytorchNative;
  if ((form & 16) != 0) header.beginning = fragscope::trace::TraceBeginning::kMiddle;
  TraceBuilder file(header, form % 2 == 0 ? ChunkCodec::kPlain : ChunkCodec::kZstd);
  file.table(table);
  // A chunk ends where a number is missing.
  for (std::size_t at = 0; at < records.size();) {
    std::size_t end = at + 1;
    while (end < records.size() && records[end].commit == records[end - 1].commit + 1)
      ++end;
    file.records(std::span(records).subspan(at, end - at));
    at = end;
  }
  if (form % 4 < 2) file.end();
  read_chunks(file.bytes());
  analyze(file.bytes());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0 && data[0] == 'S') {
    run_structured(Input({data + 1, size - 1}));
    return 0;
  }
  const Bytes bytes(reinterpret_cast<const std::byte*>(data),
                    reinterpret_cast<const std::byte*>(data) + size);
  read_chunks(bytes);
  analyze(bytes);
  return 0;
}
