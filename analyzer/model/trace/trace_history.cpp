// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/trace/trace_history.hpp"

#include "allocator/policy/conf/size_options.hpp"
#include "analyzer/model/stages/open_stages.hpp"
#include "trace/check.hpp"
#include "trace/format/header_text.hpp"
#include "trace/ring/clock.hpp"

#include <algorithm>
#include <utility>

namespace fragscope::model {
namespace {

using trace::Record;
using trace::RecordKind;

constexpr std::uint64_t bit_of(RecordKind kind) {
  return std::uint64_t{1} << static_cast<unsigned>(kind);
}
/// What may stand between a failed request and who used the device then, and who did.
constexpr std::uint64_t kBetween =
    bit_of(RecordKind::kSettings) | bit_of(RecordKind::kLimit) |
    bit_of(RecordKind::kKeyframeBegin) | bit_of(RecordKind::kKeyframeBlock) |
    bit_of(RecordKind::kKeyframeEnd) | bit_of(RecordKind::kClock) | bit_of(RecordKind::kProcess) |
    bit_of(RecordKind::kThisProcess) | bit_of(RecordKind::kProcessesRefused);

constexpr auto kLastKnownKind = static_cast<std::uint8_t>(RecordKind::kUnknownChanges);

/// Whether this record completes what the one before began, so that the heap between them is one
/// that PyTorch never shows.
bool continues(RecordKind before, RecordKind kind) {
  if (kind == RecordKind::kMerge) return true;
  return before == RecordKind::kSplit &&
         (kind == RecordKind::kAlloc || kind == RecordKind::kSplit ||
          kind == RecordKind::kSegmentUnmap);
}

/// A request that found no memory and waits for pending frees, to give the cache back and to ask
/// once more: whether the records behind a keyframe can be the rest of one. A program that gives
/// the cache back and then asks looks the same.
class OpenRequest {
 public:
  /// Whether the record can be of it.
  [[nodiscard]] bool goes_on_with(const Record& record) {
    constexpr std::uint64_t kAnywhere =
        bit_of(RecordKind::kMerge) | bit_of(RecordKind::kSplit) | bit_of(RecordKind::kClock) |
        bit_of(RecordKind::kSettings) | bit_of(RecordKind::kLimit) |
        bit_of(RecordKind::kKeyframeBegin) | bit_of(RecordKind::kKeyframeBlock) |
        bit_of(RecordKind::kKeyframeEnd);
    constexpr std::uint64_t kOfRelease = kAnywhere | bit_of(RecordKind::kFreeCompleted) |
                                         bit_of(RecordKind::kSegmentFree) |
                                         bit_of(RecordKind::kSegmentUnmap);
    constexpr std::uint64_t kBehind = kAnywhere | bit_of(RecordKind::kSegmentAlloc) |
                                      bit_of(RecordKind::kSegmentMap) |
                                      bit_of(RecordKind::kDeviceMemory) |
                                      bit_of(RecordKind::kAlloc) | bit_of(RecordKind::kOutOfMemory);
    if (record.kind == RecordKind::kCacheRelease && record.pool == 0) {
      return !std::exchange(is_released_, true);
    }
    const auto kind = static_cast<unsigned>(record.kind);
    if (kind >= 64 || ((is_released_ ? kBehind : kOfRelease) >> kind & 1) == 0) return false;
    has_ended_ = record.kind == RecordKind::kAlloc || record.kind == RecordKind::kOutOfMemory;
    return true;
  }
  [[nodiscard]] bool has_ended() const { return has_ended_; }

 private:
  bool is_released_ = false;
  bool has_ended_ = false;
};

void take_settings(std::string_view conf, Settings& settings) {
  const policy::SizeOptions options = policy::read_size_options(conf);
  settings.rules = options.rules;
  settings.memory_fraction = options.memory_fraction;
  settings.conf = conf;
}

}  // namespace

/// The walk over all records: what is kept of them.
class TraceHistory::FirstWalk {
 public:
  FirstWalk(TraceHistory& history, Recording& recording)
      : history_(history)
      , settings_(recording.settings)
      , table_(history.reader_->table())
      , header_(history.reader_->header())
      , heap_(history.new_heap()) {}

  void begin(std::uint64_t first) {
    if (first == 0 && header_.beginning == trace::TraceBeginning::kEmpty) {
      heap_.begin_empty();
      history_.starts_.push_back({0, 0, 0});
      consider_peak(kBeforeFirst);
    } else {
      dark_from_ = first;
    }
    next_ = first;
  }

  /// Records up to this one are missing.
  void skip_to(std::uint64_t number) {
    if (number == next_) return;
    history_.counts_.lost += number - next_;
    lose(next_);
    stages_.lose();
    next_ = number;
  }

  void lose(std::uint64_t from) {
    settle();
    if (heap_.is_known()) dark_from_ = from + 1;
    heap_.lose();
  }

  void take(const Record& record) {
    if (!continues(last_kind_, record.kind)) settle();
    last_kind_ = record.kind;
    if (record.device != static_cast<std::uint8_t>(history_.device_)) {
      ++history_.counts_.other_devices;
    } else {
      const bool was_known = heap_.is_known();
      heap_.apply(record);
      if (was_known && !heap_.is_known()) dark_from_ = next_ + 1;
      note(record);
      // One that stands further on says how the heap is here.
      if (record.kind != RecordKind::kKeyframeEnd && heap_.keyframes() != keyframes_) {
        keyframe_begin_ = next_;
        note_keyframe();
      }
    }
    ++next_;
  }

  void end() {
    settle();
    if (dark_from_) history_.dark_.push_back({*dark_from_, next_ + 1});
    history_.peak_.stages = peak_stages_.list(header_, table_);
    history_.contradictions_ = heap_.contradictions();
    history_.keyframes_ = heap_.keyframes();
    history_.first_contradiction_ = heap_.first_contradiction();
    history_.levels_ = {most_.reserved,
                        exactly(most_.allocated),
                        exactly(most_.active),
                        most_.requested,
                        exactly(most_.inactive_split)};
  }

 private:
  void settle() {
    const TraceLevels& now = heap_.levels();
    most_.reserved = std::max(most_.reserved, now.reserved);
    most_.allocated = std::max(most_.allocated, now.allocated);
    most_.active = std::max(most_.active, now.active);
    most_.requested = std::max(most_.requested, now.requested);
    most_.inactive_split = std::max(most_.inactive_split, now.inactive_split);
  }

  void consider_peak(EventIndex event) {
    const std::uint64_t allocated = heap_.levels().allocated;
    if (has_peak_ && allocated <= history_.peak_.allocated_bytes) return;
    has_peak_ = true;
    history_.peak_ = {event, allocated, std::nullopt};
    peak_stages_ = stages_;
  }

  void note(const Record& record) {
    const auto kind = static_cast<unsigned>(record.kind);
    if (kind >= 64 || (kBetween >> kind & 1) == 0) is_failure_open_ = false;
    switch (record.kind) {
      case RecordKind::kAlloc:
        if (heap_.is_known()) consider_peak(static_cast<EventIndex>(next_));
        break;
      case RecordKind::kKeyframeBegin:
        keyframe_begin_ = next_;
        break;
      case RecordKind::kKeyframeEnd:
        note_keyframe();
        break;
      case RecordKind::kOutOfMemory:
        note_failure(record);
        break;
      case RecordKind::kSettings:
        note_settings(record);
        break;
      case RecordKind::kMark:
        stages_.take(record);
        break;
      case RecordKind::kLimit:
        settings_.limit_bytes =
            record.size == policy::kUnlimited ? std::nullopt : std::optional(record.size);
        break;
      case RecordKind::kDeviceMemory:
        settings_.device_total_bytes = record.size;
        break;
      case RecordKind::kProcess:
      case RecordKind::kThisProcess:
      case RecordKind::kProcessesRefused:
        if (is_failure_open_) note_use(record);
        break;
      default:
        if (record.kind == RecordKind::kNone ||
            static_cast<std::uint8_t>(record.kind) > kLastKnownKind) {
          ++history_.counts_.unknown_kinds;
          return;
        }
    }
    const TraceNames& names = history_.names_;
    const bool is_home_known = names.has_stream(record.stream) && names.has_pool(record.pool);
    if (!is_home_known) ++history_.counts_.unknown_homes;
  }

  // Who uses the device stands behind the failed request it was asked for.
  void note_use(const Record& record) {
    std::optional<DeviceUse>& known = history_.failed_.back().use;
    DeviceUse& use = known ? *known : known.emplace();
    if (record.kind == RecordKind::kProcessesRefused) {
      use.refused = table_.text(record.address);
      // A full table has no room for the reason.
      if (use.refused.empty()) use.refused = "the reason is not in the trace";
      return;
    }
    // No device has more; a damaged trace may say anything.
    constexpr std::size_t kMostProcesses = 4096;
    if (use.processes.size() == kMostProcesses) return;
    DeviceProcess& process = use.processes.emplace_back();
    process.pid = record.address;
    const bool is_known = record.size != policy::kUnlimited && record.size > 0;
    if (is_known) process.used_bytes = record.size;
    process.name = table_.text(record.other);
    process.is_this = record.kind == RecordKind::kThisProcess;
  }

  void note_settings(const Record& record) {
    // Keyframes repeat them, and those in front of them.
    if (record.address == settings_id_ || record.other != 0) return;
    settings_id_ = record.address;
    ++history_.counts_.settings;
    const bool is_named =
        record.address > 0 && record.address <= table_.count(trace::TableKind::kText);
    if (is_named) {
      take_settings(table_.text(record.address), settings_);
    } else {
      ++history_.counts_.unknown_settings;
    }
  }

  void note_keyframe() {
    if (heap_.keyframes() == keyframes_) return;
    keyframes_ = heap_.keyframes();
    history_.starts_.push_back({keyframe_begin_, next_ + 1, heap_.settings()});
    if (dark_from_) history_.dark_.push_back({*dark_from_, next_ + 1});
    dark_from_.reset();
    consider_peak(static_cast<EventIndex>(next_));
  }

  void note_failure(const Record& record) {
    if (!heap_.is_known()) {
      ++history_.counts_.failures_in_the_dark;
      is_failure_open_ = false;
      return;
    }
    FailedRequest& failed = history_.failed_.emplace_back();
    failed.event = static_cast<EventIndex>(next_);
    failed.time_us = static_cast<std::int64_t>(trace::unix_ns_at(header_, record.ticks) / 1000);
    failed.size_bytes = record.size;
    failed.asked_bytes = record.other;
    failed.stream = history_.names_.stream(record.stream);
    failed.pool = history_.names_.pool(record.pool);
    failed.stack = history_.names_.stack(record.stack);
    failed.device_free_bytes = record.address;
    failed.device_total_bytes = settings_.device_total_bytes;
    failed.limit_bytes = settings_.limit_bytes;
    failed.stages = stages_.list(header_, table_);
    failed.thread = record.thread;
    is_failure_open_ = true;
  }

  TraceHistory& history_;
  Settings& settings_;
  const trace::Table& table_;
  const trace::Header& header_;
  RecordedHeap heap_;
  OpenStages stages_;
  OpenStages peak_stages_;
  TraceLevels most_;
  std::uint64_t next_ = 0;  // the record that comes
  RecordKind last_kind_ = RecordKind::kNone;
  std::uint64_t settings_id_ = 0;
  std::uint64_t keyframe_begin_ = 0;
  std::uint64_t keyframes_ = 0;
  std::optional<std::uint64_t> dark_from_;
  bool has_peak_ = false;
  bool is_failure_open_ = false;  // what comes may say who used the device at the last failure
};

Result<std::unique_ptr<TraceHistory>> TraceHistory::open(std::span<const std::byte> bytes,
                                                         Recording& recording,
                                                         const trace::ReadProgress& progress) {
  auto reader = trace::TraceReader::open(bytes, progress);
  if (!reader) return tl::unexpected(std::move(reader.error()));
  if (reader->record_count() == 0) {
    const std::string reason(trace::text_of(reader->header().reason));
    return failure(ErrorCode::kDamaged,
                   "the trace has no records" + (reason.empty() ? "" : ": " + reason));
  }
  std::unique_ptr<TraceHistory> history(new TraceHistory(std::move(*reader), recording));
  if (history->is_native()) {
    auto again = trace::TraceReader::open(bytes);
    if (!again) return tl::unexpected(std::move(again.error()));
    history->earlier_ = std::make_unique<EarlierKeyframes>(std::move(*again));
  }
  history->walk_once(recording, progress);
  if (history->starts_.empty()) {
    return failure(ErrorCode::kDamaged,
                   "not replayable from here: its beginning is overwritten, and the " +
                       std::to_string(history->reader_->record_count()) +
                       " records that are left hold no whole keyframe");
  }
  history->add_trust(recording);
  history->set_end(recording);
  return history;
}

TraceHistory::TraceHistory(trace::TraceReader reader, Recording& recording)
    : reader_(std::make_unique<trace::TraceReader>(std::move(reader)))
    , names_(reader_->table(), recording)
    , device_(reader_->header().device) {
  const trace::Header& header = reader_->header();
  recording.kind = "trace";
  const std::string library(trace::text_of(header.library_version));
  const std::string torch(trace::text_of(header.torch_version));
  recording.writer = "fragscope" + (library.empty() ? "" : " " + library) +
                     (is_native() ? ", attached to the native allocator" : "") +
                     (torch.empty() ? "" : " in PyTorch " + torch);
  recording.event_count = reader_->record_count();
  take_settings(trace::text_of(header.conf), recording.settings);
  if (header.device_total_bytes > 0) {
    recording.settings.device_total_bytes = header.device_total_bytes;
  }
  recording.traces.push_back({device_, 0, 0});
  const trace::Table& table = reader_->table();
  for (std::uint32_t id = 1; id <= table.count(trace::TableKind::kFact); ++id) {
    const trace::TableFact fact = table.fact(id);
    recording.facts.push_back(
        {std::string(table.text(fact.name)), std::string(table.text(fact.value))});
  }
}

EventIndex TraceHistory::first_event() const {
  return static_cast<EventIndex>(reader_->first_record());
}
EventIndex TraceHistory::end_event() const {
  return static_cast<EventIndex>(reader_->end_record());
}

void TraceHistory::walk_once(Recording& recording, const trace::ReadProgress& progress) {
  FirstWalk walk(*this, recording);
  walk.begin(reader_->first_record());
  for (std::size_t i = 0; i < reader_->chunk_count(); ++i) {
    walk.skip_to(reader_->first_of_chunk(i));
    const auto records = reader_->records(i);
    if (!records) {
      ++damaged_chunks_;
      if (damage_.empty()) damage_ = records.error().describe();
      continue;  // what comes next finds a gap
    }
    for (const Record& record : *records)
      walk.take(record);
    if (progress) progress(reader_->end_of_chunk(i), reader_->file_bytes());
  }
  walk.skip_to(reader_->end_record());
  walk.end();
}

bool TraceHistory::is_known_before(EventIndex event) const {
  const auto number = static_cast<std::uint64_t>(event);
  return std::ranges::none_of(
      dark_, [number](const Dark& dark) { return dark.begin <= number && number < dark.end; });
}

RecordedHeap TraceHistory::new_heap() const {
  return {reader_->header(), reader_->table(), earlier_.get()};
}

bool TraceHistory::is_native() const {
  return reader_->header().source == trace::TraceSource::kPytorchNative;
}

std::uint64_t TraceHistory::last_known() const {
  const std::uint64_t end = reader_->end_record();
  return is_known_before(static_cast<EventIndex>(end)) ? end : dark_.back().begin - 1;
}

void TraceHistory::visit_states_until(
    std::span<const EventIndex> targets,
    const std::function<bool(EventIndex, HeapState&)>& use) const {
  RecordedHeap heap = new_heap();
  std::uint64_t at = 0;
  bool has_begun = false;
  for (const EventIndex target : targets) {
    std::uint64_t to = std::max<std::uint64_t>(static_cast<std::uint64_t>(target), 0);
    if (target == end_event()) to = last_known();
    FRAGSCOPE_CHECK(is_known_before(static_cast<EventIndex>(to)));
    const Start& start = start_before(to);
    // Going on from where the last state was made may be the shorter way.
    if (!has_begun || start.record >= at) {
      heap = heap_at(start);
      at = start.record;
      has_begun = true;
    }
    move(heap, at, to);
    at = to;
    HeapState state = heap.state(names_);
    if (!use(target, state)) return;
  }
}

const TraceHistory::Start& TraceHistory::start_before(std::uint64_t record) const {
  return *std::prev(std::ranges::upper_bound(starts_, record, {}, &Start::known_from));
}

RecordedHeap TraceHistory::heap_at(const Start& start) const {
  RecordedHeap heap = new_heap();
  heap.use_settings(start.settings);
  if (start.known_from == 0) heap.begin_empty();
  return heap;
}

TraceHistory::Stretch TraceHistory::last_stretch(std::uint64_t at_most) const {
  const std::uint64_t end = last_known();
  std::uint64_t begin = starts_.front().known_from;
  for (const Dark& dark : dark_) {
    if (dark.end <= end) begin = std::max(begin, dark.end);
  }
  for (const Start& start : starts_) {
    if (end - begin <= at_most) break;
    if (start.known_from <= end) begin = std::max(begin, start.known_from);
  }
  return {static_cast<EventIndex>(begin), static_cast<EventIndex>(end)};
}

TraceHistory::Stretch TraceHistory::of_whole_requests(Stretch stretch) const {
  const auto begin = static_cast<std::uint64_t>(stretch.begin);
  // From the start there is nothing in front; PyTorch's own allocator does not tell of retries.
  if (start_before(begin).record >= begin || is_native()) return stretch;
  OpenRequest request;
  for (std::size_t i = reader_->chunk_of(begin); i < reader_->chunk_count(); ++i) {
    const auto records = reader_->records(i);
    if (!records) return stretch;
    for (const Record& record : *records) {
      const auto number = static_cast<EventIndex>(record.commit - 1);
      if (number < stretch.begin || record.device != static_cast<std::uint8_t>(device_)) continue;
      if (number >= stretch.end || !request.goes_on_with(record)) return stretch;
      if (request.has_ended()) return {number + 1, stretch.end};
    }
  }
  return stretch;
}

void TraceHistory::visit_records(const Stretch& stretch,
                                 const std::function<void(const Record&)>& visit) const {
  const auto begin = static_cast<std::uint64_t>(stretch.begin);
  const Start& start = start_before(begin);
  RecordedHeap heap = heap_at(start);
  move(heap, start.record, begin);
  heap.listen(visit);
  move(heap, begin, static_cast<std::uint64_t>(stretch.end));
}

void TraceHistory::move(RecordedHeap& heap, std::uint64_t from, std::uint64_t to) const {
  for (std::size_t i = reader_->chunk_of(from); i < reader_->chunk_count(); ++i) {
    if (reader_->first_of_chunk(i) >= to) return;
    const auto records = reader_->records(i);
    if (!records) continue;
    for (const Record& record : *records) {
      const std::uint64_t number = record.commit - 1;
      if (number >= to) return;
      if (number >= from && record.device == static_cast<std::uint8_t>(device_)) heap.apply(record);
    }
  }
}

void TraceHistory::set_end(Recording& recording) const {
  const EventIndex end = end_event();
  visit_states_until(std::span(&end, 1), [&](EventIndex, HeapState& state) {
    for (const HeapSegment& from : state.segments) {
      Segment& segment = recording.segments.emplace_back();
      segment.address = from.address;
      segment.size_bytes = from.size_bytes;
      segment.stream = from.home.stream;
      segment.first_block = from.first_block;
      segment.block_count = from.block_count;
      segment.device = device_;
      segment.pool = from.home.pool;
      segment.size_class = from.home.size_class;
      segment.expandable = from.home.expandable;
    }
    for (const HeapBlock& from : state.blocks) {
      recording.blocks.push_back(
          {from.address, from.size_bytes, from.requested_bytes, from.stack, from.state, true});
    }
    return true;
  });
}

}  // namespace fragscope::model
